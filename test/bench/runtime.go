package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

const (
	// inFlight is the number of concurrent bare calls in the floor: with 4 to 8, a runtime on
	// a small machine is fastest.
	inFlight = 8
	// patience bounds every wait.
	patience = 5 * time.Minute
	// settle is the pause before idle usage is measured. Every 30 s the daemon unmaps the code
	// that it does not use.
	settle = 20 * time.Second
	// defaultMaxPods is the daemon's default of --max-pods.
	defaultMaxPods = 110
)

// bench runs the measurements on one runtime with one daemon.
type bench struct {
	ctx      context.Context // of the whole run, created by main
	rt       *testbed.Runtime
	node     *testbed.Node
	registry *testbed.Registry
	report   *report
	opts     options
	serial   int // makes the pod names of different rounds unique
}

// measureRuntime runs every measurement on one kind of runtime.
func measureRuntime(ctx context.Context, r *report, kind testbed.Kind, registry *testbed.Registry, opts options) error {
	rt, err := testbed.StartRuntime(ctx, kind, registry)
	if err != nil {
		return err
	}
	defer rt.Close(context.WithoutCancel(ctx))
	if err := rt.CRI.Pull(ctx, testbed.BusyboxImage); err != nil {
		return err
	}
	node, err := testbed.NewNode("bench", rt.Endpoint())
	if err != nil {
		return err
	}
	if opts.largest > defaultMaxPods {
		node.Args = append(node.Args, "--max-pods", fmt.Sprint(opts.largest))
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	defer node.Kill()
	b := &bench{ctx: ctx, rt: rt, node: node, registry: registry, report: r, opts: opts}
	if opts.trace {
		if err := b.traceStarts(); err != nil {
			return fmt.Errorf("trace: %w", err)
		}
	}
	for _, step := range []struct {
		name    string
		measure func() error
	}{
		{"starts", b.allStarts}, {"devices", b.devices}, {"volumes", b.volumes}, {"restarts", b.restarts},
		{"replacements", b.replacements}, {"rollouts", b.rollouts}, {"removals", b.removals},
		{"gates", b.gates},
		{"probes", b.probes}, {"rotation", b.rotation}, {"crashloop", b.crashLoop}, {"idle", b.idle},
		{"evictions", b.evictions}, {"cluster", b.cluster},
	} {
		if !opts.wants(step.name) {
			continue
		}
		if err := step.measure(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (b *bench) row(what, unit string) row {
	return row{Runtime: string(b.rt.Kind), Name: what, Unit: unit}
}

// bare returns a new bare pod with the same spec as manifest.
func (b *bench) bare() *testbed.BarePod {
	b.serial++
	name := fmt.Sprintf("bare%d", b.serial)
	return &testbed.BarePod{Name: name, Namespace: "default", UID: name, Command: []string{"sh", "-c", script},
		LogDir: filepath.Join(b.node.Dir(), "bare", name)}
}

const script = "trap 'exit 0' TERM; sleep 100000 & wait"

func manifest(name, word string) string { return manifestOf(name, word, script) }

func manifestOf(name, word, script string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers:
  - {name: main, image: %s, command: [sh, -c, %q], env: [{name: WORD, value: %q}]}
`, name, testbed.BusyboxImage, script, word)
}

// inParallel calls do for 0 to count-1, several at the same time.
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

// names returns new pod names.
func (b *bench) names(count int) []string {
	names := make([]string, count)
	for i := range names {
		b.serial++
		names[i] = fmt.Sprintf("p%d", b.serial)
	}
	return names
}

// awaitInstance waits until an instance of a pod's container other than the given one runs,
// and returns its ID and its start time in the runtime.
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

// await polls with a long interval, since each check costs the runtime something. The measured
// times are the runtime's timestamps and do not depend on the interval.
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
