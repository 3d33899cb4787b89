package supervisor

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/manifest"
)

const noExclusiveCPU = "ExclusiveCPUsUnavailable"

// leftToKernel is what the containers of a pod have that were assigned nothing.
type leftToKernel struct{}

func (leftToKernel) CPUs(types.UID, string) (string, bool) { return "", false }
func (leftToKernel) NUMANodes(types.UID, string) string    { return "" }
func (leftToKernel) Created(string, string)                {}

// oneCPU assigns one exclusive CPU to one pod at a time, of those whose name has the prefix own.
type oneCPU struct {
	leftToKernel
	mu    sync.Mutex
	owner types.UID
	// err is returned instead of a shortage; may be nil.
	err error
	// fixed is the resource that a pod with the name web cannot change.
	fixed v1.ResourceName
}

type cpuShortage struct{ error }

func (cpuShortage) Reason() string { return noExclusiveCPU }

func (o *oneCPU) Assign(pod *v1.Pod) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !strings.HasPrefix(pod.Name, "own") || o.owner == pod.UID:
		return nil
	case o.err != nil:
		err := o.err
		o.err = nil
		return err
	case o.owner != "":
		return cpuShortage{errors.New("available 0")}
	}
	o.owner = pod.UID
	return nil
}

// Preview finds the CPU free if the pods that have ended have it.
func (o *oneCPU) Preview(pod *v1.Pod, ended []types.UID, _ []*v1.Pod) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if strings.HasPrefix(pod.Name, "own") && o.owner != "" && !slices.Contains(ended, o.owner) {
		return cpuShortage{errors.New("available 0")}
	}
	return nil
}

func (o *oneCPU) Changed() <-chan struct{} { return nil }

func (o *oneCPU) Fixed(pod *v1.Pod, name v1.ResourceName) bool {
	return pod.Name == "web" && name == o.fixed
}

func (o *oneCPU) Release(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owner == uid {
		o.owner = ""
	}
}

func (o *oneCPU) Retain(keep func(types.UID) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owner != "" && !keep(o.owner) {
		o.owner = ""
	}
}

func (o *oneCPU) has() types.UID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owner
}

// A static pod waits for an exclusive CPU, holds nothing of the node meanwhile, and starts as
// soon as the CPU is released.
func TestPodWaitsForExclusiveCPU(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable, b.exclusive = cpus("2"), &oneCPU{}
		first, second, other := requestingPod("own-first", "1"), requestingPod("own-second", "1"), requestingPod("other", "1")
		d := b.start()
		d.config.deliver(file, first)
		b.runs(first.UID)
		d.config.deliver(file, first, second)
		b.waitsFor(second.UID, noExclusiveCPU)
		if st := d.status(second.UID); !strings.Contains(st.Message, "available 0") {
			t.Errorf("message %q", st.Message)
		}
		d.config.deliver(file, first, second, other)
		b.runs(other.UID)
		b.after(time.Hour)
		if n := len(d.eventsOf(second, noExclusiveCPU)); n != 1 {
			t.Errorf("%d events in an hour of waiting", n)
		}
		d.config.deliver(file, second, other)
		b.until(time.Minute, "the second pod runs", func() bool { return b.running(second.UID) == 1 })
		if b.running(first.UID) != 0 {
			t.Error("both run")
		}
	})
}

// The CPU of a pod outlives its sandbox and the daemon, and is released if the pod ended while
// no daemon ran.
func TestExclusiveCPUIsKept(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		manager := &oneCPU{}
		b.exclusive = manager
		first, second := requestingPod("own-first", "1"), requestingPod("own-second", "1")
		d := b.start()
		d.config.deliver(file, first)
		b.runs(first.UID)
		b.fake.KillSandboxes("own-first")
		b.until(time.Minute, "it runs again",
			func() bool { return b.fake.Calls("RunPodSandbox") == 2 && b.running(first.UID) == 1 })
		b.restart(first, second)
		b.waitsFor(second.UID, noExclusiveCPU)
		if manager.has() != first.UID || b.running(first.UID) != 1 {
			t.Errorf("the CPU belongs to %q", manager.has())
		}
		b.kill()
		b.fake.Reboot()
		manager.owner = "gone"
		b.restart(second)
		b.until(2*time.Minute, "the second pod runs", func() bool { return b.running(second.UID) == 1 })
	})
}

// A pod of the cluster that cannot have its CPUs is rejected, as at the kubelet. A fault of the
// assignment itself is retried.
func TestBoundPodWithoutExclusiveCPU(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.exclusive = &oneCPU{owner: "other"}
		running := testPod("p", "other", "1")
		bound := boundPod("own", "u1")
		d := b.start(file, manifest.SourceAPI)
		d.config.deliver(file, running)
		b.runs(running.UID)
		d.config.deliver(manifest.SourceAPI, bound)
		b.until(time.Minute, "the pod is rejected", func() bool {
			st := d.status(bound.UID)
			return st.Phase == v1.PodFailed && st.Reason == noExclusiveCPU
		})
		if b.running(bound.UID) != 0 {
			t.Error("it runs")
		}
	})
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.exclusive = &oneCPU{err: errors.New("fault")}
		pod := requestingPod("own", "1")
		d := b.start()
		d.config.deliver(file, pod)
		b.until(5*time.Minute, "the pod runs", func() bool { return b.running(pod.UID) == 1 })
	})
}

// What the node assigns to a Guaranteed pod is not resized: its CPU, because containers may have
// exclusive ones, or its memory, because it is of certain NUMA nodes. The other one is.
func TestResizeOfAssignedResources(t *testing.T) {
	for _, c := range []struct {
		fixed           v1.ResourceName
		denied, allowed *v1.Pod
		message         string
	}{
		{v1.ResourceCPU, sized("2", "64Mi"), sized("1", "96Mi"), "cpuManagerPolicy static"},
		{v1.ResourceMemory, sized("1", "96Mi"), sized("2", "64Mi"), "memoryManagerPolicy Static"},
	} {
		withTestbed(t, func(t *testing.T, b *supervisorHarness) {
			b.allocatable, b.exclusive = cpus("4"), &oneCPU{fixed: c.fixed}
			d := b.start()
			d.config.deliver(file, sized("1", "64Mi"))
			b.runs("u1")
			d.config.deliver(file, c.denied)
			b.until(time.Minute, "the resize is infeasible", func() bool {
				pending := condition(d.status("u1"), v1.PodResizePending)
				return pending != nil && pending.Reason == v1.PodReasonInfeasible && strings.Contains(pending.Message, c.message)
			})
			if b.fake.Calls("UpdateContainerResources") != 0 {
				t.Errorf("%s: the container was changed", c.fixed)
			}
			d.config.deliver(file, c.allowed)
			b.until(time.Minute, "the other resource is resized", func() bool {
				return condition(d.status("u1"), v1.PodResizePending) == nil && b.fake.Calls("UpdateContainerResources") == 1
			})
		})
	}
}
