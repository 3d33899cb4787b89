package pleg_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/node/oom"
	"github.com/podstead/podstead/supervisor/pleg"
	"github.com/podstead/podstead/supervisor/status"
)

// kernelLog is a pipe that keeps records apart, as /dev/kmsg does.
type kernelLog struct {
	t    *testing.T
	path string
	file *os.File
	pid  int
}

func newKernelLog(t *testing.T) *kernelLog {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_DIRECT|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	l := &kernelLog{t: t, path: fmt.Sprintf("/proc/self/fd/%d", fds[0]), file: os.NewFile(uintptr(fds[1]), "log"), pid: 10}
	t.Cleanup(func() { _ = errors.Join(l.file.Close(), unix.Close(fds[0])) })
	return l
}

// kill writes what the kernel writes about a kill in a container.
func (l *kernelLog) kill(id string) {
	l.t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		l.t.Fatal(err)
	}
	l.pid++
	for _, line := range []string{
		fmt.Sprintf(
			"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/podstead/pod1/%[1]s,task_memcg=/podstead/pod1/%[1]s,task=x,pid=%[2]d,uid=0", id, l.pid),
		fmt.Sprintf("Memory cgroup out of memory: Killed process %d (x) total-vm:1kB, anon-rss:1kB, file-rss:0kB, "+
			"shmem-rss:0kB, UID:0", l.pid),
	} {
		if _, err := fmt.Fprintf(l.file, "3,1,%d,-;%s\n", now.Nano()/1000, line); err != nil {
			l.t.Fatal(err)
		}
	}
}

// observe observes the runtime, with this kernel log, until stop is called. reported
// receives the kills.
func (l *kernelLog) observe(f *critest.Fake) (p *pleg.PLEG, reported <-chan oom.Kill, stop func()) {
	kills := oom.New(oom.Config{File: l.path})
	kills.ReadHistory()
	p = pleg.New(pleg.Config{Runtime: f.Client(l.t), OOMKills: kills})
	all := make(chan oom.Kill, 9)
	kills.OnKill(func(k oom.Kill) { p.Relist("a"); all <- k })
	ctx, cancel := context.WithCancel(l.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = kills.Run(ctx) })
	wg.Go(func() { _ = p.Run(ctx) })
	return p, all, func() { cancel(); wg.Wait() }
}

// A runtime that cannot read the cgroups of its containers reports Error for what the kernel
// killed for memory. The kernel's own record corrects that, whether it is read before or after
// the exit, and again after a restart of the daemon. A container that ended otherwise keeps its
// reason.
func TestKernelRecordExplainsExits(t *testing.T) {
	names := []string{"early", "late", "killed", "exits"}
	f := critest.New(t)
	f.Put(critest.Pod{UID: "a", Name: "a", Namespace: "default", Instance: critest.Instance, Containers: names})
	reasons := func(p *pleg.PLEG) map[string]string {
		observed, _ := p.Status("a")
		pod := &v1.Pod{}
		for _, name := range names {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name})
		}
		found := map[string]string{}
		for _, c := range status.Generate(status.Input{Pod: pod, Observed: observed, Now: time.Now()}).ContainerStatuses {
			if c.State.Terminated != nil {
				found[c.Name] = c.State.Terminated.Reason
			}
		}
		return found
	}
	awaitReasons := func(p *pleg.PLEG, want map[string]string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !maps.Equal(reasons(p), want); awaitObservation(t, p) {
			if time.Now().After(deadline) {
				t.Fatalf("reasons are %v, want %v", reasons(p), want)
			}
		}
	}

	log := newKernelLog(t)
	p, reported, stop := log.observe(f)
	awaitObservation(t, p)
	awaitReasons(p, map[string]string{})
	id := ids(p)
	if len(id) != len(names) {
		t.Fatalf("observed are %v", id)
	}
	log.kill(id["early"])
	<-reported
	f.Kill("a/early")
	f.Kill("a/killed")
	f.Kill("a/late")
	log.kill(id["exits"])
	<-reported
	f.Exit("a/exits", 1)
	awaitReasons(p, map[string]string{"early": "OOMKilled", "late": "Error", "killed": "Error", "exits": "Error"})
	p.Drain()
	log.kill(id["late"])
	corrected := map[string]string{"early": "OOMKilled", "late": "OOMKilled", "killed": "Error", "exits": "Error"}
	awaitReasons(p, corrected)
	if events := p.Drain(); len(events) != 1 || events[0].Kind != pleg.PodSync {
		t.Errorf("a corrected reason causes the events %v, want one sync", events)
	}
	stop()

	log = newKernelLog(t)
	log.kill(id["early"])
	log.kill(id["late"])
	p, reported, stop = log.observe(f)
	awaitReasons(p, corrected)
	stop()
	if len(reported) > 0 {
		t.Errorf("kills from before the start are reported: %v", <-reported)
	}
}

// awaitObservation waits for an observation that begins now.
func awaitObservation(t *testing.T, p *pleg.PLEG) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	now := time.Now()
	p.Relist("a")
	if _, err := p.NewerThan(ctx, "a", now); err != nil {
		t.Fatal(err)
	}
}

// ids are the IDs of the containers by name.
func ids(p *pleg.PLEG) map[string]string {
	observed, _ := p.Status("a")
	found := map[string]string{}
	for i := range observed.Containers {
		found[observed.Containers[i].Name] = observed.Containers[i].ID
	}
	return found
}
