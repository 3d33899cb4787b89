package main

import (
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

func (b *bench) allStarts() error {
	for _, count := range []int{1, 20, b.opts.largest} {
		if err := b.starts(count); err != nil {
			return fmt.Errorf("of %d pods: %w", count, err)
		}
	}
	return nil
}

// starts measures the time until a number of pods run, for the floor and the daemon in turn.
func (b *bench) starts(count int) error {
	rounds := b.opts.rounds
	if count == 1 {
		rounds *= 3
	}
	var floor, value []float64
	for range rounds {
		took, pods, err := b.bareStart(count)
		if err != nil {
			return err
		}
		floor = append(floor, took.Seconds())
		if err := b.bareRemove(pods); err != nil {
			return err
		}
		names := b.names(count)
		took, err = b.podsteadStart(names)
		if err != nil {
			return err
		}
		value = append(value, took.Seconds())
		if err := b.podsteadRemove(names); err != nil {
			return err
		}
	}
	target := bound{}
	if count == b.opts.largest {
		target = timesFloor(1.2)
	}
	what := fmt.Sprintf("start of %d pods", count)
	if count == 1 {
		what = "start of a pod"
	}
	b.report.add(b.row(what, "s"), value, floor, target)
	return nil
}

// bareStart starts pods with bare calls and returns how long that took.
func (b *bench) bareStart(count int) (time.Duration, []*testbed.BarePod, error) {
	pods := make([]*testbed.BarePod, count)
	for i := range pods {
		pods[i] = b.bare()
	}
	begin := time.Now()
	err := inParallel(count, func(i int) error { return b.rt.CRI.Start(b.ctx, pods[i]) })
	return time.Since(begin), pods, err
}

func (b *bench) bareRemove(pods []*testbed.BarePod) error {
	return inParallel(len(pods), func(i int) error { return b.rt.CRI.RemovePod(b.ctx, pods[i].Sandbox) })
}

// podsteadStart writes one manifest for each pod and returns the time until the last container
// had started.
func (b *bench) podsteadStart(names []string) (time.Duration, error) {
	return b.startOf(names, func(name string) string { return manifest(name, "one") })
}

// startOf is podsteadStart with these manifests.
func (b *bench) startOf(names []string, manifest func(name string) string) (time.Duration, error) {
	begin := time.Now()
	for _, name := range names {
		if err := b.node.Write(name+".yaml", manifest(name)); err != nil {
			return 0, err
		}
	}
	var last time.Time
	for _, name := range names {
		_, started, err := b.awaitInstance(name, "")
		if err != nil {
			return 0, err
		}
		if started.After(last) {
			last = started
		}
	}
	return last.Sub(begin), nil
}

// podsteadRemove removes the manifests and waits until their pods are gone.
func (b *bench) podsteadRemove(names []string) error {
	for _, name := range names {
		if err := b.node.Remove(name + ".yaml"); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := b.awaitGone(name); err != nil {
			return err
		}
	}
	return nil
}

// awaitGone waits until no sandbox of a pod is ready and no container runs.
func (b *bench) awaitGone(name string) error {
	return b.await("pod "+name+" is gone", func() error {
		sandboxes, err := b.rt.CRI.Sandboxes(b.ctx, "io.kubernetes.pod.name", b.node.PodName(name))
		if err != nil {
			return err
		}
		for _, s := range sandboxes {
			if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
				return fmt.Errorf("sandbox %s is ready", s.Id)
			}
		}
		return nil
	})
}

func (b *bench) bareStop(p *testbed.BarePod) error {
	if _, err := b.rt.CRI.Runtime.StopContainer(b.ctx,
		&runtimeapi.StopContainerRequest{ContainerId: p.Container, Timeout: 30}); err != nil {
		return err
	}
	_, err := b.rt.CRI.Runtime.StopPodSandbox(b.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.Sandbox})
	return err
}

// removals removes the manifests of many pods at once. The daemon scans twice, a second apart,
// before it treats a file as removed.
func (b *bench) removals() error {
	count := b.opts.largest
	_, pods, err := b.bareStart(count)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := inParallel(count, func(i int) error { return b.bareStop(pods[i]) }); err != nil {
		return err
	}
	floor := time.Since(begin)
	if err := b.bareRemove(pods); err != nil {
		return err
	}
	names := b.names(count)
	if _, err := b.podsteadStart(names); err != nil {
		return err
	}
	begin = time.Now()
	if err := b.podsteadRemove(names); err != nil {
		return err
	}
	took := time.Since(begin)
	b.report.add(b.row(fmt.Sprintf("removal of %d pods", count), "s"), []float64{took.Seconds()},
		[]float64{floor.Seconds()}, bound{})
	return nil
}
