package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// options holds the command line flags.
type options struct {
	pods, rounds int
	idle         time.Duration
	runtime      testbed.Kind
	// docs tells to write the table into docs/compare.md, and its summary into README.md.
	docs bool
}

func main() {
	opts := parse()
	testbed.Isolate(build)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, opts)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	runtime := flag.String("runtime", string(testbed.Containerd24),
		"containerd of podstead and the kubelet; the kubelet needs a newer one than Debian's")
	flag.IntVar(&o.pods, "pods", 50, "number of pods")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds; the table shows medians")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to measure CPU usage while idle, in the first round")
	flag.BoolVar(&o.docs, "docs", false, "write the table into docs/compare.md, and a part of it into README.md, as well")
	flag.Parse()
	o.runtime = testbed.Kind(*runtime)
	return o
}

func run(ctx context.Context, opts options) error {
	registry, err := testbed.StartRegistry()
	if err != nil {
		return err
	}
	defer registry.Close()
	rt, err := testbed.StartRuntime(ctx, opts.runtime, registry)
	if err != nil {
		return err
	}
	defer rt.Close(context.WithoutCancel(ctx))
	if err := rt.CRI.Pull(ctx, testbed.BusyboxImage); err != nil {
		return err
	}
	programs := []program{&podstead{rt: rt}}
	for _, p := range []program{&kubelet{rt: rt}, &podman{}} {
		if file := p.binary(); !isFile(file) {
			progress("SKIPPED %s: %s is missing; run: make compare", p.name(), file)
			continue
		}
		programs = append(programs, p)
	}
	r := &report{pods: opts.pods, rounds: opts.rounds, idle: opts.idle}
	for round := range opts.rounds {
		for _, p := range programs {
			progress("round %d of %d: %s", round+1, opts.rounds, p.name())
			m, err := measure(ctx, p, round, opts)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name(), err)
			}
			r.add(p.name(), m)
		}
	}
	for _, p := range programs {
		version, err := p.version(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name(), err)
		}
		r.programs = append(r.programs, programInfo{p.name(), version})
	}
	var table bytes.Buffer
	r.print(&table)
	if opts.docs {
		var summary bytes.Buffer
		r.printRows(&summary, []int{startOfPods, replacement, idleAll, memoryAll})
		if err := errors.Join(quote("docs/compare.md", table.Bytes()), quote("README.md", summary.Bytes())); err != nil {
			return err
		}
	}
	_, err = os.Stdout.Write(table.Bytes())
	return err
}

// quote replaces the table in a page.
func quote(page string, table []byte) error {
	const begin, end = "<!-- comparison -->\n", "<!-- end -->"
	file := filepath.Join(testbed.SourceRoot(), page)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, complete := strings.Cut(rest, end)
	if !found || !complete {
		return fmt.Errorf("%s has no place between %q and %q", file, begin, end)
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+string(table)+"\n"+end+after), 0o644)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// progress prints the current step to standard error.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "compare: "+format+"\n", args...)
}
