package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// options holds the command line flags.
type options struct {
	json    string
	kinds   []testbed.Kind
	rounds  int
	idle    time.Duration
	strict  bool
	fake    int
	largest int
	leaks   int
	// api is the number of pods of the API measurements, watchers the number of watches.
	api, watchers int
	// restarts is the number of restarts of the crash loop.
	restarts int
	// atOnce is the number of pods that are started, edited and removed at once.
	atOnce int
	only   *regexp.Regexp
	// trace adds the time lines of starts.
	trace bool
}

// wants reports whether a measurement is selected.
func (o options) wants(name string) bool { return o.only == nil || o.only.MatchString(name) }

func main() {
	opts := parse()
	testbed.Isolate(func() error {
		if opts.atOnce > 0 && opts.wants("gates") {
			if err := testbed.BuildUngated(); err != nil {
				return err
			}
		}
		if err := testbed.BuildStripped(); err != nil {
			return err
		}
		return testbed.Build()
	})
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
	for _, k := range testbed.Kinds() {
		all = append(all, string(k))
	}
	flag.StringVar(&o.json, "json", "", "write the results as JSON to this file")
	flag.StringVar(&kinds, "runtime", strings.Join(all, ","), "runtimes to measure on")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each measurement; the table shows medians")
	flag.DurationVar(&o.idle, "idle", 30*time.Second, "how long to measure CPU usage while idle")
	flag.IntVar(&o.largest, "pods", 50, "number of pods of the largest measurement on a real runtime")
	flag.IntVar(&o.leaks, "leaks", 0,
		"number of memory leaks to relieve, one after the other; 0 skips them, the target needs 10")
	flag.IntVar(&o.fake, "fake", 1000, "pods on the fake runtime; 0 skips it")
	flag.IntVar(&o.api, "api", 500, "pods of the API measurements; 0 skips them")
	flag.IntVar(&o.watchers, "watchers", 1000, "number of concurrent watches")
	flag.IntVar(&o.restarts, "restarts", 1000, "restarts of the crash loop")
	flag.IntVar(&o.atOnce, "at-once", 40,
		"pods of one file that are started, edited and removed at once, with and without the gates; 0 skips it")
	only := flag.String("only", "",
		"regular expression that selects measurements; see the package comment for their names")
	flag.BoolVar(&o.trace, "trace", false, "print where the time of starts goes, step by step")
	flag.BoolVar(&o.strict, "strict", false, "exit with 1 when a target is missed")
	flag.Parse()
	if *only != "" {
		o.only = regexp.MustCompile(*only)
	}
	for k := range strings.SplitSeq(kinds, ",") {
		if k != "" {
			o.kinds = append(o.kinds, testbed.Kind(k))
		}
	}
	return o
}

func run(ctx context.Context, opts options) (*report, error) {
	registry, err := testbed.StartRegistry()
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
		for _, m := range []struct {
			name    string
			measure func(context.Context, *report, options) error
		}{{"fake", measureFake}, {"fakeprobes", measureProbes}, {"garbage", measureGarbage}, {"logs", measureLogs}} {
			if !opts.wants(m.name) {
				continue
			}
			if err := m.measure(ctx, r, opts); err != nil {
				return nil, fmt.Errorf("%s on the fake runtime: %w", m.name, err)
			}
		}
	}
	if opts.api > 0 && opts.wants("api") {
		if err := measureAPI(ctx, r, opts); err != nil {
			return nil, fmt.Errorf("API: %w", err)
		}
	}
	return r, nil
}

// progress prints the current measurement to standard error.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
