package main

import (
	"context"
	"fmt"
	"time"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/test/testbed"
)

// statsMethods are the CRI calls that cost the runtime work for each container.
var statsMethods = []string{"ContainerStats", "ListContainerStats", "PodSandboxStats", "ListPodSandboxStats",
	"ContainerStatus", "PodSandboxStatus"}

// measureScrapes measures the daemon's responses to Prometheus, and the calls of the runtime
// that they cause. The bound is for 500 pods.
func measureScrapes(ctx context.Context, r *report, opts options, fake *critest.Fake, node *testbed.Node) error {
	calls := func() (n int) {
		for _, method := range statsMethods {
			n += fake.Calls(method)
		}
		return n
	}
	scrapes := 5 * opts.rounds
	for _, path := range []string{"/metrics", "/metrics/resource", "/metrics/probes", "/metrics/cadvisor"} {
		var times, work []float64
		statsCalls := []float64{}
		for range scrapes {
			// Cached figures must expire first.
			if err := sleep(ctx, 1100*time.Millisecond); err != nil {
				return err
			}
			used, err := testbed.CPU(node.Pid())
			if err != nil {
				return err
			}
			// The evictor calls the runtime now and then too.
			before := calls()
			begin := time.Now()
			if _, err := node.Get(ctx, path); err != nil {
				return err
			}
			times = append(times, float64(time.Since(begin).Microseconds())/1e3)
			statsCalls = append(statsCalls, float64(calls()-before))
			now, err := testbed.CPU(node.Pid())
			if err != nil {
				return err
			}
			work = append(work, float64((now-used).Microseconds())/1e3)
		}
		target, none := bound{}, bound{}
		if path == "/metrics" && opts.fake <= 1000 {
			target, none = atMost(50*max(1, float64(opts.fake)/500), "50 ms with 500 pods"), atMost(0, "none")
		}
		of := fmt.Sprintf("GET %s with %d pods", path, opts.fake)
		r.add(row{Runtime: "fake", Name: of, Unit: "ms"}, times, nil, target)
		r.add(row{Runtime: "fake", Name: "the daemon's CPU for " + of, Unit: "ms"}, work, nil, bound{})
		r.add(row{Runtime: "fake", Name: "stats calls to the runtime for one " + of, Unit: ""}, statsCalls, nil, none)
	}
	return nil
}
