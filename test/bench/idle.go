package main

import (
	"context"
	"fmt"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// idle measures the daemon and the runtime while idle, and the runtime without the daemon.
func (b *bench) idle() error {
	names := b.names(b.opts.largest)
	if _, err := b.podsteadStart(names); err != nil {
		return err
	}
	if err := sleep(b.ctx, settle); err != nil {
		return err
	}
	shares, err := cpuShares(b.ctx, b.opts.idle, b.node.Pid(), b.rt.Pid())
	if err != nil {
		return err
	}
	memory, err := testbed.PrivateMemory(b.node.Pid())
	if err != nil {
		return err
	}
	with := fmt.Sprintf(" while idle with %d pods", b.opts.largest)
	b.report.add(b.row("CPU"+with, "% of a core"), shares[:1], nil, atMost(0.1, "≤ 0.1 %"))
	b.report.add(b.row("private memory"+with, "MB"), []float64{megabytes(memory)}, nil, atMost(20, "≤ 20 MB"))
	b.node.Kill()
	alone, err := cpuShares(b.ctx, b.opts.idle, b.rt.Pid())
	if err != nil {
		return err
	}
	b.report.add(b.row("the runtime's CPU meanwhile (floor: without the daemon)", "% of a core"), shares[1:], alone,
		bound{})
	if err := b.node.Start(b.ctx); err != nil {
		return err
	}
	return b.podsteadRemove(names)
}

// cpuShares returns the CPU usage of processes over a period, in percent of a core.
func cpuShares(ctx context.Context, over time.Duration, pids ...int) ([]float64, error) {
	used := make([]time.Duration, len(pids))
	var err error
	for i, pid := range pids {
		if used[i], err = testbed.CPU(pid); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	if err := sleep(ctx, over); err != nil {
		return nil, err
	}
	shares := make([]float64, len(pids))
	for i, pid := range pids {
		now, err := testbed.CPU(pid)
		if err != nil {
			return nil, err
		}
		shares[i] = 100 * float64(now-used[i]) / float64(time.Since(begin))
	}
	return shares, nil
}

// sleep waits, unless the run ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
