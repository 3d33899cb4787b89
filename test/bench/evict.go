package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// The parameters of a leak, from the project's targets.
const (
	nodeMemory    = 1 << 30
	memoryLeft    = "200Mi"
	leakPerSecond = 50_000_000
)

// leak returns a pod that allocates anonymous memory, with a request so small that it starts
// under pressure too.
func leak(name string) string {
	script := fmt.Sprintf("while :; do (head -c %d /dev/zero; sleep 100000) | tail -c 60000000 >/dev/null & sleep 1; done",
		leakPerSecond)
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: %s, command: [sh, -c, %q], resources: {requests: {memory: 1Mi}}}
`, name, testbed.BusyboxImage, script)
}

// evictions starts leaking pods one after the other in a cgroup with the memory of the node,
// and counts how often memory ran out before the pod was evicted.
func (b *bench) evictions() error {
	if b.opts.leaks == 0 {
		return nil
	}
	node, err := testbed.NewNode("leaks", b.rt.Endpoint())
	if err != nil {
		return err
	}
	at := node.CgroupRoot() + "-memory"
	cgroup := filepath.Join("/sys/fs/cgroup/memory", at)
	if err := os.MkdirAll(cgroup, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(cgroup, "memory.limit_in_bytes"), strconv.AppendInt(nil, nodeMemory, 10),
		0); err != nil {
		return err
	}
	node.Args = []string{"--cgroup-root", at + "/podstead", "--eviction-hard", "memory.available<" + memoryLeft,
		"--eviction-pressure-transition-period", "1h"}
	if err := node.Start(b.ctx); err != nil {
		return err
	}
	defer node.Kill()
	ranOut, peaks := 0.0, []float64(nil)
	for i := range b.opts.leaks {
		name := fmt.Sprintf("leak%d", i)
		peak, full, err := b.leakOnce(node, cgroup, name)
		if err != nil {
			return fmt.Errorf("leak %d: %w", i, err)
		}
		if full {
			ranOut++
		}
		peaks = append(peaks, float64(peak)/(1<<20))
	}
	b.report.add(b.row(fmt.Sprintf("memory ran out in %d leaks of 50 MB/s", b.opts.leaks), "times"), []float64{ranOut},
		nil, atMost(0, "never"))
	b.report.add(b.row("maximum memory usage until a leak was relieved, of 1024 MiB", "MiB"), peaks, nil, bound{})
	return nil
}

// leakOnce returns the maximum memory usage of the node until a leak was relieved, and whether
// the limit was ever reached.
func (b *bench) leakOnce(node *testbed.Node, cgroup, name string) (peak int64, full bool, err error) {
	hits, err := valueOf(cgroup, "memory.failcnt")
	if err != nil {
		return 0, false, err
	}
	if err := os.WriteFile(filepath.Join(cgroup, "memory.max_usage_in_bytes"), []byte("0"), 0); err != nil {
		return 0, false, err
	}
	if err := node.Write(name+".yaml", leak(name)); err != nil {
		return 0, false, err
	}
	killed := ""
	err = b.awaitPod(node, name, func(p v1.Pod, there bool) bool {
		for _, c := range p.Status.ContainerStatuses {
			for _, state := range []v1.ContainerState{c.State, c.LastTerminationState} {
				if state.Terminated != nil && state.Terminated.Reason == "OOMKilled" {
					killed = c.Name
				}
			}
		}
		ended := len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Terminated != nil
		return there && p.Status.Reason == "Evicted" && ended
	})
	if err != nil {
		return 0, false, err
	}
	if peak, err = valueOf(cgroup, "memory.max_usage_in_bytes"); err != nil {
		return 0, false, err
	}
	after, err := valueOf(cgroup, "memory.failcnt")
	if err != nil {
		return 0, false, err
	}
	if err := node.Remove(name + ".yaml"); err != nil {
		return 0, false, err
	}
	return peak, after > hits || killed != "", b.awaitPod(node, name, func(_ v1.Pod, there bool) bool { return !there })
}

// awaitPod waits until a pod satisfies done.
func (b *bench) awaitPod(node *testbed.Node, name string, done func(p v1.Pod, there bool) bool) error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		pods, err := node.Pods(ctx)
		if err != nil {
			return err
		}
		p, there := pods[name]
		if done(p, there) {
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("pod %s is %s %s: %w", name, p.Status.Phase, p.Status.Reason, err)
		}
	}
}

func valueOf(directory, file string) (int64, error) {
	data, err := os.ReadFile(filepath.Join(directory, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}
