package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/podstead/podstead/test/bed"
)

// options are the command line.
type options struct {
	json    string
	kinds   []bed.Kind
	rounds  int
	idle    time.Duration
	strict  bool
	fake    int
	largest int
	leaks   int
	// api is how many pods the API is asked for, watchers how many watch them.
	api, watchers int
}

func main() {
	opts := parse()
	bed.Isolate(bed.Build)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	report, err := run(ctx, opts)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	report.table(os.Stdout)
	if opts.json != "" {
		if err := report.writeJSON(opts.json); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
	if opts.strict && report.missed() {
		os.Exit(1)
	}
}

func parse() options {
	var o options
	var kinds string
	all := make([]string, 0, 2)
	for _, k := range bed.Kinds() {
		all = append(all, string(k))
	}
	flag.StringVar(&o.json, "json", "", "write the results as JSON to this file")
	flag.StringVar(&kinds, "runtime", strings.Join(all, ","), "runtimes to measure on")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each measurement; the table shows medians")
	flag.DurationVar(&o.idle, "idle", 30*time.Second, "how long CPU is watched while idle")
	flag.IntVar(&o.largest, "pods", 50, "pods of the largest measurement on a real runtime")
	flag.IntVar(&o.leaks, "leaks", 0, "leaks of memory to relieve, one after the other; 0 leaves them out, 10 is what the target asks")
	flag.IntVar(&o.fake, "fake", 1000, "pods on the fake runtime; 0 leaves it out")
	flag.IntVar(&o.api, "api", 500, "pods that the API is asked for; 0 leaves it out")
	flag.IntVar(&o.watchers, "watchers", 1000, "watches that are open at once")
	flag.BoolVar(&o.strict, "strict", false, "end with 1 when a target is missed")
	flag.Parse()
	for k := range strings.SplitSeq(kinds, ",") {
		if k != "" {
			o.kinds = append(o.kinds, bed.Kind(k))
		}
	}
	return o
}

func run(ctx context.Context, opts options) (*report, error) {
	registry, err := bed.StartRegistry()
	if err != nil {
		return nil, err
	}
	defer registry.Close()
	r := newReport()
	if err := r.binary(); err != nil {
		return nil, err
	}
	for _, kind := range opts.kinds {
		if err := measureRuntime(ctx, r, kind, registry, opts); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
	}
	if opts.fake > 0 {
		if err := measureFake(ctx, r, opts); err != nil {
			return nil, fmt.Errorf("fake runtime: %w", err)
		}
		if err := measureProbes(ctx, r, opts); err != nil {
			return nil, fmt.Errorf("probes on the fake runtime: %w", err)
		}
		if err := measureLogs(ctx, r, opts); err != nil {
			return nil, fmt.Errorf("logs on the fake runtime: %w", err)
		}
	}
	if opts.api > 0 {
		if err := measureAPI(ctx, r, opts); err != nil {
			return nil, fmt.Errorf("API: %w", err)
		}
	}
	return r, nil
}

// progress tells on standard error what is being measured.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
