package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

const (
	// patience bounds every wait.
	patience = 10 * time.Minute
	// pause is how long a program gets to finish its work before memory is measured or pods are
	// started, settle before CPU usage while idle is measured.
	pause, settle = 3 * time.Second, 10 * time.Second
	// replacements is the number of pods that are edited in each round, one after the other.
	replacements = 2
)

// none is the value of what a program does not have, such as podman's daemon.
const none = -1

// The measurements, in the order of the table.
const (
	startOfPods = iota
	replacement
	idleDaemon
	idleAll
	memoryDaemon
	memoryRuntime
	memoryMonitors
	memoryAll
	binarySize
	count
)

// measurement holds a value for each of the constants, and the number of processes that monitor
// containers.
type measurement struct {
	values      [count]float64
	measured    [count]bool
	monitors    int
	monitorName string
}

func (m *measurement) set(what int, value float64) {
	m.values[what], m.measured[what] = value, true
}

// measure runs all measurements with one program.
func measure(ctx context.Context, p program, round int, opts options) (m measurement, err error) {
	if err := errors.Join(os.RemoveAll(marks()), os.Mkdir(marks(), 0o755)); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, p.stop(context.WithoutCancel(ctx))) }()
	if err := p.start(ctx, round); err != nil {
		return m, err
	}
	if err := warmUp(ctx, p); err != nil {
		return m, err
	}
	pods := make([]pod, opts.pods)
	for i := range pods {
		pods[i] = pod{fmt.Sprintf("p%d", i+1), "one"}
	}
	begin := time.Now()
	if err := p.create(ctx, pods); err != nil {
		return m, err
	}
	took, err := awaitMarks(ctx, begin, pods)
	if err != nil {
		return m, err
	}
	m.set(startOfPods, took.Seconds())
	if err := m.processes(ctx, p, round, opts.idle); err != nil {
		return m, err
	}
	info, err := os.Stat(p.binary())
	if err != nil {
		return m, err
	}
	m.set(binarySize, megabytes(info.Size()))
	return m, m.replace(ctx, p, pods)
}

// warmUp runs one pod until it runs and ends it again: a daemon that has just started may still
// wait for its runtime.
func warmUp(ctx context.Context, p program) error {
	first := pod{"first", "one"}
	if err := p.create(ctx, []pod{first}); err != nil {
		return err
	}
	if _, err := awaitMarks(ctx, time.Now(), []pod{first}); err != nil {
		return err
	}
	if err := p.remove(ctx, first); err != nil {
		return err
	}
	if err := await(ctx, "the first pod has ended",
		func() error { _, err := os.Stat(first.gone()); return err }); err != nil {
		return err
	}
	return sleep(ctx, pause)
}

// replace edits some pods, one after the other.
func (m *measurement) replace(ctx context.Context, p program, pods []pod) error {
	var all []float64
	for _, edited := range pods[:min(replacements, len(pods))] {
		edited.word = "two"
		begin := time.Now()
		if err := p.replace(ctx, edited); err != nil {
			return err
		}
		took, err := awaitMarks(ctx, begin, []pod{edited})
		if err != nil {
			return err
		}
		all = append(all, took.Seconds())
	}
	m.set(replacement, median(all))
	return nil
}

// processes measures the memory of the daemon, of the runtime and of what monitors containers,
// and in the first round their CPU usage while idle.
func (m *measurement) processes(ctx context.Context, p program, round int, idle time.Duration) error {
	if err := sleep(ctx, pause); err != nil {
		return err
	}
	daemon, runtime, monitor := p.processes()
	monitors, err := named(monitor)
	if err != nil {
		return err
	}
	if len(monitors) == 0 {
		return fmt.Errorf("no process is named %s", monitor)
	}
	m.monitors, m.monitorName = len(monitors), monitor
	if round == 0 {
		if err := sleep(ctx, settle); err != nil {
			return err
		}
		if err := m.idle(ctx, idle, daemon, append([]int{runtime}, monitors...)); err != nil {
			return err
		}
	}
	all := 0.0
	for what, pids := range map[int][]int{memoryDaemon: {daemon}, memoryRuntime: {runtime}, memoryMonitors: monitors} {
		sum, err := memoryOf(pids)
		if err != nil {
			return err
		}
		if sum != none {
			all += sum
		}
		m.set(what, sum)
	}
	m.set(memoryAll, all)
	return nil
}

// idle measures the CPU usage of the daemon, and of all processes together.
func (m *measurement) idle(ctx context.Context, period time.Duration, daemon int, others []int) error {
	before, othersBefore, err := cpuOf(daemon, others)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := sleep(ctx, period); err != nil {
		return err
	}
	after, othersAfter, err := cpuOf(daemon, others)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	percent := func(used time.Duration) float64 { return 100 * float64(used) / float64(took) }
	m.set(idleDaemon, none)
	if daemon != 0 {
		m.set(idleDaemon, percent(after-before))
	}
	m.set(idleAll, percent(after-before+othersAfter-othersBefore))
	return nil
}

// cpuOf returns the CPU time of the daemon and the sum of the others. A process ID of 0 is none.
func cpuOf(daemon int, others []int) (own, sum time.Duration, err error) {
	for i, pid := range append([]int{daemon}, others...) {
		if pid == 0 {
			continue
		}
		used, err := testbed.CPU(pid)
		if err != nil {
			return 0, 0, err
		}
		if i == 0 {
			own = used
		} else {
			sum += used
		}
	}
	return own, sum, nil
}

// memoryOf returns the private memory of processes in MB, or none without a process.
func memoryOf(pids []int) (float64, error) {
	sum, found := int64(0), false
	for _, pid := range pids {
		if pid == 0 {
			continue
		}
		found = true
		m, err := testbed.PrivateMemory(pid)
		if err != nil {
			return 0, err
		}
		sum += m
	}
	if !found {
		return none, nil
	}
	return megabytes(sum), nil
}

// awaitMarks waits until the containers of all pods have run, and returns the time from begin
// until the last of them did.
func awaitMarks(ctx context.Context, begin time.Time, pods []pod) (time.Duration, error) {
	var last time.Time
	err := await(ctx, fmt.Sprintf("%d pods run", len(pods)), func() error {
		for _, p := range pods {
			info, err := os.Stat(p.mark())
			if err != nil {
				return err
			}
			if info.ModTime().After(last) {
				last = info.ModTime()
			}
		}
		return nil
	})
	return last.Sub(begin), err
}

// final is an error that waiting does not change.
type final struct{ error }

// await waits until check returns no error.
func await(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	step := time.NewTicker(pollInterval)
	defer step.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if errors.As(err, new(final)) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-step.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
		}
	}
}

// sleep waits, unless the run ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
