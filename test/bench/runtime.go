package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/bed"
)

const (
	// inFlight is how many bare calls are under way at once in the floor:
	// with 4 to 8 a runtime on a small machine is fastest.
	inFlight = 8
	// patience bounds every wait.
	patience = 5 * time.Minute
	// settle is how long everything is left alone before idleness is measured.
	settle = 10 * time.Second
)

// bench measures on one runtime with one daemon.
type bench struct {
	ctx    context.Context // of the whole run; this is main's own
	rt     *bed.Runtime
	node   *bed.Node
	report *report
	opts   options
	serial int // tells pods of different rounds apart
}

// measureRuntime runs every measurement on one kind of runtime.
func measureRuntime(ctx context.Context, r *report, kind bed.Kind, registry *bed.Registry, opts options) error {
	rt, err := bed.StartRuntime(ctx, kind, registry)
	if err != nil {
		return err
	}
	defer rt.Close(context.WithoutCancel(ctx))
	if err := rt.CRI.Pull(ctx, bed.BusyboxImage); err != nil {
		return err
	}
	node, err := bed.NewNode("bench", rt.Endpoint())
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	defer node.Kill()
	b := &bench{ctx: ctx, rt: rt, node: node, report: r, opts: opts}
	for _, count := range []int{1, 20, opts.largest} {
		if err := b.starts(count); err != nil {
			return fmt.Errorf("start of %d pods: %w", count, err)
		}
	}
	for _, step := range []func() error{b.restarts, b.replacements, b.removals, b.idle} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) row(what, unit string) row {
	return row{Runtime: string(b.rt.Kind), What: what, Unit: unit}
}

// bare is a new bare pod of the same shape as manifest's.
func (b *bench) bare() *bed.BarePod {
	b.serial++
	name := fmt.Sprintf("bare%d", b.serial)
	return &bed.BarePod{Name: name, Namespace: "default", UID: name, Command: []string{"sh", "-c", script},
		LogDir: filepath.Join(b.node.Dir(), "bare", name)}
}

const script = "trap 'exit 0' TERM; sleep 100000 & wait"

func manifest(name, word string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers:
  - {name: main, image: %s, command: [sh, -c, %q], env: [{name: WORD, value: %q}]}
`, name, bed.BusyboxImage, script, word)
}

// starts measures how long it takes until a number of pods run, the floor and
// the daemon by turns.
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

// bareStart starts pods with bare calls, and tells how long it took.
func (b *bench) bareStart(count int) (time.Duration, []*bed.BarePod, error) {
	pods := make([]*bed.BarePod, count)
	for i := range pods {
		pods[i] = b.bare()
	}
	begin := time.Now()
	err := inParallel(count, func(i int) error { return b.rt.CRI.Start(b.ctx, pods[i]) })
	return time.Since(begin), pods, err
}

func (b *bench) bareRemove(pods []*bed.BarePod) error {
	return inParallel(len(pods), func(i int) error { return b.rt.CRI.RemovePod(b.ctx, pods[i].Sandbox) })
}

// inParallel calls do for 0 to count-1, some at once.
func inParallel(count int, do func(int) error) error {
	results := make(chan error, count)
	slots := make(chan struct{}, inFlight)
	for i := range count {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results <- do(i)
		}()
	}
	var errs []error
	for range count {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

// names are new names of pods.
func (b *bench) names(count int) []string {
	names := make([]string, count)
	for i := range names {
		b.serial++
		names[i] = fmt.Sprintf("p%d", b.serial)
	}
	return names
}

// podsteadStart puts a manifest a pod into the folder, and tells how long it took
// until the last container had started.
func (b *bench) podsteadStart(names []string) (time.Duration, error) {
	begin := time.Now()
	for _, name := range names {
		if err := b.node.Write(name+".yaml", manifest(name, "one")); err != nil {
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

// podsteadRemove takes the manifests away and waits until their pods are gone.
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

// awaitInstance waits until an instance of a pod's container other than the one
// named runs, and tells its ID and when the runtime says it started.
func (b *bench) awaitInstance(name, other string) (id string, started time.Time, err error) {
	err = b.await("pod "+name+" runs", func() error {
		list, err := b.rt.CRI.Containers(b.ctx, "io.kubernetes.pod.name", b.node.PodName(name))
		if err != nil {
			return err
		}
		for _, c := range list {
			if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING && c.Id != other {
				id = c.Id
				return nil
			}
		}
		return fmt.Errorf("it has %d containers, none of them new and running", len(list))
	})
	if err != nil {
		return "", time.Time{}, err
	}
	s, err := b.rt.CRI.Runtime.ContainerStatus(b.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return "", time.Time{}, err
	}
	return id, time.Unix(0, s.Status.StartedAt), nil
}

// awaitGone waits until nothing of a pod is ready or runs.
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

// await polls: seldom, since each look costs the runtime something, and times
// are taken from the runtime's own stamps anyhow.
func (b *bench) await(what string, check func() error) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	step := time.NewTicker(50 * time.Millisecond)
	defer step.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-step.C:
		case <-b.ctx.Done():
			return b.ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("%s: not within %v: %w\nthe daemon's log is in %s", what, patience, err, b.node.Log())
		}
	}
}

// restarts kills containers of running pods, a fresh pod each time, since a
// second death would meet the crash-loop back-off.
func (b *bench) restarts() error {
	var floor, value []float64
	names := b.names(b.opts.rounds * 2)
	if _, err := b.podsteadStart(names); err != nil {
		return err
	}
	for _, name := range names {
		took, err := b.bareRestart()
		if err != nil {
			return err
		}
		floor = append(floor, took.Seconds())
		old, _, err := b.awaitInstance(name, "")
		if err != nil {
			return err
		}
		pid, err := b.rt.CRI.Pid(b.ctx, old)
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
		_, started, err := b.awaitInstance(name, old)
		if err != nil {
			return err
		}
		value = append(value, started.Sub(begin).Seconds())
	}
	target := atMost(1.3, "≤ 1.3 s on relist")
	if b.rt.Kind == bed.Containerd24 {
		target = atMost(0.3, "≤ 0.3 s with events")
	}
	b.report.add(b.row("restart of a killed container", "s"), value, floor, target)
	return b.podsteadRemove(names)
}

// bareRestart is how long the runtime needs for a new container in a sandbox.
func (b *bench) bareRestart() (time.Duration, error) {
	p := b.bare()
	if err := b.rt.CRI.Start(b.ctx, p); err != nil {
		return 0, err
	}
	pid, err := b.rt.CRI.Pid(b.ctx, p.Container)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return 0, err
	}
	if err := b.rt.CRI.StartContainer(b.ctx, p, 1); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	return took, b.rt.CRI.RemovePod(b.ctx, p.Sandbox)
}

// replacements edits a running pod.
func (b *bench) replacements() error {
	var floor, value []float64
	name := b.names(1)[0]
	if _, err := b.podsteadStart([]string{name}); err != nil {
		return err
	}
	for round := range b.opts.rounds * 2 {
		took, err := b.bareReplace()
		if err != nil {
			return err
		}
		floor = append(floor, took.Seconds())
		old, _, err := b.awaitInstance(name, "")
		if err != nil {
			return err
		}
		begin := time.Now()
		if err := b.node.Write(name+".yaml", manifest(name, fmt.Sprint(round))); err != nil {
			return err
		}
		_, started, err := b.awaitInstance(name, old)
		if err != nil {
			return err
		}
		value = append(value, started.Sub(begin).Seconds())
	}
	b.report.add(b.row("replacement of an edited pod", "s"), value, floor, floorPlus(0.3))
	return b.podsteadRemove([]string{name})
}

// bareReplace is how long the runtime needs to stop a pod and start the next.
func (b *bench) bareReplace() (time.Duration, error) {
	old, next := b.bare(), b.bare()
	if err := b.rt.CRI.Start(b.ctx, old); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := b.bareStop(old); err != nil {
		return 0, err
	}
	if err := b.rt.CRI.Start(b.ctx, next); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	return took, b.bareRemove([]*bed.BarePod{old, next})
}

func (b *bench) bareStop(p *bed.BarePod) error {
	if _, err := b.rt.CRI.Runtime.StopContainer(b.ctx, &runtimeapi.StopContainerRequest{ContainerId: p.Container, Timeout: 30}); err != nil {
		return err
	}
	_, err := b.rt.CRI.Runtime.StopPodSandbox(b.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.Sandbox})
	return err
}

// removals takes all manifests of many pods away at once. The daemon looks
// twice, a second apart, before it believes that a file is gone.
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
	b.report.add(b.row(fmt.Sprintf("removal of %d pods", count), "s"), []float64{took.Seconds()}, []float64{floor.Seconds()}, bound{})
	return nil
}

// idle measures the daemon and the runtime while nothing happens, and the runtime
// alone without the daemon.
func (b *bench) idle() error {
	names := b.names(b.opts.largest)
	if _, err := b.podsteadStart(names); err != nil {
		return err
	}
	if err := pause(b.ctx, settle); err != nil {
		return err
	}
	shares, err := cpuShares(b.ctx, b.opts.idle, b.node.Pid(), b.rt.Pid())
	if err != nil {
		return err
	}
	memory, err := bed.MemoryOf(b.node.Pid())
	if err != nil {
		return err
	}
	with := fmt.Sprintf(" while idle with %d pods", b.opts.largest)
	b.report.add(b.row("CPU"+with, "% of a core"), shares[:1], nil, atMost(0.5, "≤ 0.5 %"))
	b.report.add(b.row("resident memory"+with, "MB"), []float64{megabytes(memory.RSS)}, nil, atMost(40, "≤ 40 MB"))
	b.report.add(b.row("of that, not backed by files", "MB"), []float64{megabytes(memory.Anon)}, nil, bound{})
	b.node.Kill()
	alone, err := cpuShares(b.ctx, b.opts.idle, b.rt.Pid())
	if err != nil {
		return err
	}
	b.report.add(b.row("the runtime's CPU meanwhile (floor: alone)", "% of a core"), shares[1:], alone, bound{})
	if err := b.node.Start(b.ctx); err != nil {
		return err
	}
	return b.podsteadRemove(names)
}

// cpuShares is what processes use of a core, in percent, over a time.
func cpuShares(ctx context.Context, over time.Duration, pids ...int) ([]float64, error) {
	used := make([]time.Duration, len(pids))
	var err error
	for i, pid := range pids {
		if used[i], err = bed.CPU(pid); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	if err := pause(ctx, over); err != nil {
		return nil, err
	}
	shares := make([]float64, len(pids))
	for i, pid := range pids {
		now, err := bed.CPU(pid)
		if err != nil {
			return nil, err
		}
		shares[i] = 100 * float64(now-used[i]) / float64(time.Since(begin))
	}
	return shares, nil
}

// pause lets time pass, unless the run ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
