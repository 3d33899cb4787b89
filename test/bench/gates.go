package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

// failedCalls are the reasons of the events about calls to the runtime that failed.
var failedCalls = []string{"FailedKillPod", "FailedCreatePodSandBox", "Failed", "FailedSync"}

// manyPods is one run of many pods that are started, edited and removed at once, in seconds.
type manyPods struct {
	// first is the time until the first pod ran, start until the last one did.
	first, start, edit, remove float64
	// failed are the events of failed calls.
	failed float64
}

// gates measures the pods of one file that are all started, edited and removed at once, with
// and without the gates that limit how many calls to the runtime are in progress.
func (b *bench) gates() error {
	count := b.opts.atOnce
	if count == 0 {
		return nil
	}
	without, err := b.manyPods("ungated", testbed.UngatedProduct(), count)
	if err != nil {
		return err
	}
	with, err := b.manyPods("gated", testbed.Product(), count)
	if err != nil {
		return err
	}
	of := fmt.Sprintf("%d pods of a file at once", count)
	const floor = " (floor: without gates)"
	for _, r := range []struct {
		name          string
		value, before float64
	}{
		{"start of " + of + floor, with.start, without.start},
		{"first of " + of + floor, with.first, without.first},
		{"edit of " + of + floor, with.edit, without.edit},
		{"removal of " + of + floor, with.remove, without.remove},
	} {
		b.report.add(b.row(r.name, "s"), []float64{r.value}, []float64{r.before}, bound{})
	}
	b.report.add(b.row("failed starts and stops of "+of, "events"), []float64{with.failed}, nil, atMost(0, "0"))
	b.report.add(b.row("the same without gates", "events"), []float64{without.failed}, nil, bound{})
	return nil
}

// manyPods measures one program on a node of its own.
func (b *bench) manyPods(name, program string, count int) (run manyPods, err error) {
	node, err := testbed.NewNode(name, b.rt.Endpoint())
	if err != nil {
		return run, err
	}
	node.Binary, node.Args = program, []string{"--max-pods", fmt.Sprint(count)}
	if err := node.Start(b.ctx); err != nil {
		return run, err
	}
	defer node.Kill()
	file := func(word string) string {
		var all strings.Builder
		for i := range count {
			all.WriteString("---\n" + manifest(fmt.Sprintf("p%d", i), word))
		}
		return all.String()
	}
	ids := map[string]bool{}
	for _, step := range []struct {
		word        string
		first, last *float64
	}{{"one", &run.first, &run.start}, {"two", new(float64), &run.edit}} {
		begin := time.Now()
		if err := node.Write("all.yaml", file(step.word)); err != nil {
			return run, err
		}
		starts, err := b.awaitNew(node, ids, count)
		if err != nil {
			return run, err
		}
		*step.first, *step.last = starts[0].Sub(begin).Seconds(), starts[count-1].Sub(begin).Seconds()
	}
	begin := time.Now()
	if err := node.Remove("all.yaml"); err != nil {
		return run, err
	}
	if err := b.awaitSandboxes(node, 0); err != nil {
		return run, err
	}
	run.remove = time.Since(begin).Seconds()
	body, err := node.Get(b.ctx, "/podstead/v1/events")
	if err != nil {
		return run, err
	}
	var events v1.EventList
	if err := json.Unmarshal(body, &events); err != nil {
		return run, err
	}
	for _, e := range events.Items {
		if slices.Contains(failedCalls, e.Reason) {
			run.failed += float64(max(e.Count, 1))
		}
	}
	return run, nil
}

// awaitNew waits until a node has this number of running containers that are not in known,
// adds them to known and returns the times of their starts in order.
func (b *bench) awaitNew(node *testbed.Node, known map[string]bool, count int) ([]time.Time, error) {
	var fresh []string
	err := b.await(fmt.Sprintf("%d new pods run on %s", count, node.Name), func() error {
		list, err := b.rt.CRI.Containers(b.ctx, "", "")
		if err != nil {
			return err
		}
		fresh = fresh[:0]
		for _, c := range list {
			if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING && !known[c.Id] &&
				strings.HasSuffix(c.Labels["io.kubernetes.pod.name"], "-"+node.Name) {
				fresh = append(fresh, c.Id)
			}
		}
		if len(fresh) != count {
			return fmt.Errorf("%d do", len(fresh))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	starts := make([]time.Time, 0, count)
	for _, id := range fresh {
		s, err := b.rt.CRI.Runtime.ContainerStatus(b.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			return nil, err
		}
		known[id] = true
		starts = append(starts, time.Unix(0, s.Status.StartedAt))
	}
	slices.SortFunc(starts, time.Time.Compare)
	return starts, nil
}

// awaitSandboxes waits until a node has this number of ready sandboxes.
func (b *bench) awaitSandboxes(node *testbed.Node, want int) error {
	return b.await(fmt.Sprintf("%d sandboxes of %s are ready", want, node.Name), func() error {
		all, err := b.rt.CRI.Sandboxes(b.ctx, "", "")
		if err != nil {
			return err
		}
		ready := 0
		for _, s := range all {
			if s.State == runtimeapi.PodSandboxState_SANDBOX_READY && strings.HasSuffix(s.Metadata.Name, "-"+node.Name) {
				ready++
			}
		}
		if ready != want {
			return fmt.Errorf("%d are", ready)
		}
		return nil
	})
}
