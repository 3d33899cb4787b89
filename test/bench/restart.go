package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// restarts measures the restart of killed containers, in a new pod each time, since a second
// exit would be delayed by the crash-loop back-off.
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
	if b.rt.Kind == testbed.Containerd24 {
		target = atMost(0.3, "≤ 0.3 s with events")
	}
	b.report.add(b.row("restart of a killed container", "s"), value, floor, target)
	return b.podsteadRemove(names)
}

// bareRestart returns how long the runtime needs for a new container in a sandbox.
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

// replacements measures the replacement of an edited pod.
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

// bareReplace returns how long the runtime needs to stop a pod and start the next.
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
	return took, b.bareRemove([]*testbed.BarePod{old, next})
}
