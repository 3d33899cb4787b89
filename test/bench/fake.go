package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/test/testbed"
)

// measureFake measures the daemon on the in-memory fake runtime, with more pods than a small
// machine can run. The fake streams no events, so the daemon relists every second, which is
// the more expensive way.
func measureFake(ctx context.Context, r *report, opts options) error {
	fake := critest.Start()
	defer fake.Close()
	socket := filepath.Join(testbed.Dir(), "fake.sock")
	if err := fake.ServeUnix(socket); err != nil {
		return err
	}
	node, err := testbed.NewNode("fake", "unix://"+socket)
	if err != nil {
		return err
	}
	node.Args = []string{"--max-pods", fmt.Sprint(opts.fake)}
	if err := node.Start(ctx); err != nil {
		return err
	}
	defer node.Kill()
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	empty, err := testbed.PrivateMemory(node.Pid())
	if err != nil {
		return err
	}

	began, err := testbed.CPU(node.Pid())
	if err != nil {
		return err
	}
	begin := time.Now()
	for i := range opts.fake {
		name := fmt.Sprintf("p%d", i)
		if err := node.Write(name+".yaml", manifest(name, "one")); err != nil {
			return err
		}
	}
	if err := awaitAll(ctx, node, opts.fake); err != nil {
		return err
	}
	took := time.Since(begin)
	ended, err := testbed.CPU(node.Pid())
	if err != nil {
		return err
	}

	row := func(what, unit string) row { return row{Runtime: "fake", Name: what, Unit: unit} }
	of := fmt.Sprintf("%d pods", opts.fake)
	r.add(row("start of "+of, "s"), []float64{took.Seconds()}, nil, bound{})
	r.add(row("the daemon's CPU for the start of "+of, "s"), []float64{(ended - began).Seconds()}, nil, bound{})
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	shares, err := cpuShares(ctx, opts.idle, node.Pid())
	if err != nil {
		return err
	}
	r.add(row("CPU while idle with "+of, "% of a core"), shares, nil, bound{})
	busy, err := restartEachSecond(ctx, fake, opts, node.Pid())
	if err != nil {
		return err
	}
	r.add(row("CPU with "+of+", one restart per second (housekeeping every 2 s)", "% of a core"), busy, nil,
		atMost(5, "≤ 5 %"))
	full, err := testbed.PrivateMemory(node.Pid())
	if err != nil {
		return err
	}
	r.add(row("private memory with "+of, "MB"), []float64{megabytes(full)}, nil, bound{})
	r.add(row("private memory per pod", "kB"), []float64{float64(full-empty) / 1e3 / float64(opts.fake)}, nil, bound{})
	relists, err := relistTimes(ctx, socket, 10*opts.rounds)
	if err != nil {
		return err
	}
	r.add(row("relist of "+of, "ms"), relists, nil, bound{})
	return measureScrapes(ctx, r, opts, fake, node)
}

// restartEachSecond returns the daemon's CPU usage while a container of another pod is killed
// each second, so that housekeeping runs all the time.
func restartEachSecond(ctx context.Context, fake *critest.Fake, opts options, pid int) ([]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan int)
	go func() {
		killed := 0
		for i := 0; sleep(ctx, time.Second) == nil; i++ {
			killed += fake.Kill(fmt.Sprintf("p%d-fake/main", i%opts.fake))
		}
		ended <- killed
	}()
	shares, err := cpuShares(ctx, opts.idle, pid)
	cancel()
	if killed := <-ended; err == nil && killed < int(opts.idle.Seconds())/2 {
		err = fmt.Errorf("only %d containers were killed in %s", killed, opts.idle)
	}
	return shares, err
}

// awaitAll waits until the daemon reports this number of running pods.
func awaitAll(ctx context.Context, node *testbed.Node, count int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		pods, err := node.Pods(ctx)
		running := 0
		for _, p := range pods {
			if p.Status.Phase == v1.PodRunning {
				running++
			}
		}
		if err == nil && running == count {
			return nil
		}
		// With a long interval: each request makes the daemon encode every pod.
		if waited := sleep(ctx, 500*time.Millisecond); waited != nil {
			return fmt.Errorf("%d of %d pods run: %w %w\nthe daemon's log is in %s", running, count, waited, err, node.Log())
		}
	}
}

// relistTimes returns how long a full relist by the product's client takes, in milliseconds.
func relistTimes(ctx context.Context, socket string, rounds int) ([]float64, error) {
	instance, err := instanceOf(ctx, socket)
	if err != nil {
		return nil, err
	}
	client, err := cri.Dial(cri.Options{Endpoint: "unix://" + socket, Instance: instance})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var times []float64
	for range rounds {
		begin := time.Now()
		if _, err := client.List(ctx); err != nil {
			return nil, err
		}
		times = append(times, float64(time.Since(begin).Microseconds())/1e3)
	}
	return times, nil
}

// instanceOf returns the instance ID of the daemon that created the first pod of a runtime.
func instanceOf(ctx context.Context, socket string) (string, error) {
	c, err := testbed.DialCRI(socket)
	if err != nil {
		return "", err
	}
	defer c.Close()
	all, err := c.Sandboxes(ctx, "", "")
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", errors.New("the fake runtime has no pods")
	}
	return all[0].Labels[cri.LabelInstance], nil
}
