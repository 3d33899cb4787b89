package main

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/podstead/podstead/internal/tracing/tracingtest"
	"github.com/podstead/podstead/test/testbed"
)

// traceStarts prints where the time goes between a manifest that is written and the container
// that runs, for one pod and for many at once.
func (b *bench) traceStarts() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	collector, stop := tracingtest.Serve(l)
	defer stop()
	node, err := testbed.NewNode("trace", b.rt.Endpoint())
	if err != nil {
		return err
	}
	config := filepath.Join(node.Dir(), "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: "+
		"KubeletConfiguration\ntracing: {endpoint: %q, samplingRatePerMillion: 1000000}\n", l.Addr()), 0o600); err != nil {
		return err
	}
	node.Args = append(node.Args, "--config", config)
	if err := node.Start(b.ctx); err != nil {
		return err
	}
	defer node.Kill()
	traced := b.withNode(node)
	for _, count := range []int{1, b.opts.largest} {
		if err := traced.traceStart(collector, count); err != nil {
			return err
		}
	}
	b.serial = traced.serial
	return nil
}

func (b *bench) traceStart(collector *tracingtest.Collector, count int) error {
	progress("%s trace of %d starts", b.rt.Kind, count)
	names := b.names(count)
	before, err := testbed.CPU(b.node.Pid())
	if err != nil {
		return err
	}
	begin := time.Now()
	took, err := b.podsteadStart(names)
	if err != nil {
		return err
	}
	used, err := testbed.CPU(b.node.Pid())
	if err != nil {
		return err
	}
	var lines []timeline
	if err := b.await("the spans of all starts have arrived", func() error {
		spans, err := collector.Spans()
		if err != nil {
			return err
		}
		lines = lines[:0]
		for _, name := range names {
			line := newTimeline(spans, b.node.PodName(name), begin)
			if !line.ended {
				return fmt.Errorf("no StartContainer of %s yet", name)
			}
			lines = append(lines, line)
		}
		return nil
	}); err != nil {
		return err
	}
	fmt.Printf("\n%s: %d pods run %.3f s after their manifests were written; podstead used %.3f s of CPU\n", b.rt.Kind,
		count, took.Seconds(), (used - before).Seconds())
	printTimelines(lines)
	return b.podsteadRemove(names)
}

// step is a part of a start: a call of the runtime, or what passes before it.
type step struct {
	name string
	// at is when it began, after the first manifest was written; both in milliseconds.
	at, took float64
}

// timeline is the start of a pod.
type timeline struct {
	steps []step
	// ended: the last step is StartContainer.
	ended bool
}

// newTimeline returns the steps of a pod's start. Calls at the same time overlap in it.
func newTimeline(spans []tracingtest.Span, pod string, begin time.Time) timeline {
	syncs := map[string]tracingtest.Span{}
	var own []tracingtest.Span
	for _, s := range spans {
		if s.Attributes["k8s.pod.name"] == pod {
			syncs[s.ID] = s
			own = append(own, s)
		}
	}
	for _, s := range spans {
		if _, ok := syncs[s.Parent]; ok {
			own = append(own, s)
		}
	}
	slices.SortFunc(own, func(a, b tracingtest.Span) int { return cmp.Compare(a.Start, b.Start) })
	var line timeline
	since := func(nanoseconds uint64) float64 { return float64(int64(nanoseconds)-begin.UnixNano()) / 1e6 }
	// last is when the last step ended.
	last, before := 0.0, "file, decoding, admission"
	for _, s := range own {
		name := s.Name[strings.LastIndex(s.Name, "/")+1:]
		start := since(s.Start)
		if gap := start - last; gap > 0 {
			line.steps = append(line.steps, step{"(" + before + ")", last, gap})
			last = start
		}
		if _, sync := syncs[s.ID]; sync {
			line.steps = append(line.steps, step{name, start, 0})
			before = "before the next call"
			continue
		}
		line.steps = append(line.steps, step{name, start, since(s.End) - start})
		last = max(last, since(s.End))
		if name == "StartContainer" {
			line.ended = true
			break
		}
	}
	return line
}

// printTimelines prints the steps of one start, or the medians of each step of many. A step that
// occurs several times in a start is counted as one, with the sum of its durations.
func printTimelines(lines []timeline) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "STEP\tBEGINS (ms)\tTAKES (ms)\tIN A START\t")
	defer w.Flush()
	if len(lines) == 1 {
		for _, s := range lines[0].steps {
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t1\t\n", s.name, s.at, s.took)
		}
		return
	}
	var order []string
	at, took, times := map[string][]float64{}, map[string][]float64{}, map[string]int{}
	for _, line := range lines {
		sum := map[string]float64{}
		first := map[string]float64{}
		for _, s := range line.steps {
			if _, known := first[s.name]; !known {
				first[s.name] = s.at
			}
			sum[s.name] += s.took
			times[s.name]++
		}
		for name, total := range sum {
			if at[name] == nil {
				order = append(order, name)
			}
			at[name], took[name] = append(at[name], first[name]), append(took[name], total)
		}
	}
	slices.SortFunc(order, func(a, b string) int { return cmp.Compare(median(at[a]), median(at[b])) })
	for _, name := range order {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t\n", name, median(at[name]), median(took[name]),
			float64(times[name])/float64(len(lines)))
	}
}
