package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/manifest"
)

const dongle = "example.com/dongle"

// fakeDevices has a number of devices, each for one pod with one container.
type fakeDevices struct {
	changed chan struct{}

	mu      sync.Mutex
	free    int
	held    map[types.UID]bool
	waiting map[types.UID]bool
	// fault is the error of Allocate; slow holds it until its context ends.
	fault error
	slow  map[types.UID]bool
}

func newFakeDevices(free int) *fakeDevices {
	return &fakeDevices{changed: make(chan struct{}, 1), free: free, held: map[types.UID]bool{},
		waiting: map[types.UID]bool{}, slow: map[types.UID]bool{}}
}

func (f *fakeDevices) notify() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// set changes the number of free devices, and the error of Allocate.
func (f *fakeDevices) set(free int, fault error) {
	f.mu.Lock()
	f.free, f.fault = free, fault
	f.mu.Unlock()
	f.notify()
}

func (f *fakeDevices) Check(pod *v1.Pod) *device.Unavailable {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[pod.UID] || f.free > 0 {
		return nil
	}
	f.waiting[pod.UID] = true
	return &device.Unavailable{Resource: dongle, Requested: 1, Cause: "not enough " + dongle, Remedy: "wait"}
}

func (f *fakeDevices) Preview(*v1.Pod, types.UID) *device.Unavailable { return nil }

func (f *fakeDevices) Withdraw(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, uid)
}

func (f *fakeDevices) Allocate(ctx context.Context, pod *v1.Pod) error {
	if u := f.Check(pod); u != nil {
		return u
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.slow[pod.UID] {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return ctx.Err()
	}
	if f.fault != nil {
		return f.fault
	}
	if !f.held[pod.UID] {
		f.held[pod.UID] = true
		f.free--
	}
	return nil
}

func (f *fakeDevices) Release(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, uid)
	if f.held[uid] {
		delete(f.held, uid)
		f.free++
		f.notify()
	}
}

func (f *fakeDevices) Retain(func(types.UID) bool) {}

func (f *fakeDevices) Status(uid types.UID) map[string][]v1.ResourceStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.held[uid] {
		return nil
	}
	return map[string][]v1.ResourceStatus{
		"app": {{Name: dongle, Resources: []v1.ResourceHealth{{ResourceID: "a", Health: v1.ResourceHealthStatusHealthy}}}}}
}

func (f *fakeDevices) Changed() <-chan struct{} { return f.changed }

func (f *fakeDevices) TakeChanged() (uids []types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid := range f.waiting {
		uids = append(uids, uid)
	}
	return uids
}

func (f *fakeDevices) Container(_ context.Context, pod *v1.Pod, c *v1.Container) (device.Assignment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(device.Requests(pod, c)) == 0 {
		return device.Assignment{}, nil
	}
	if !f.held[pod.UID] {
		return device.Assignment{}, fmt.Errorf("pod %s has no device", pod.Name)
	}
	return device.Assignment{
		Env: map[string]string{"DONGLE": "a", "OWN": "plugin"}, Annotations: map[string]string{"example.com/a": "b"},
		Nodes: []device.Node{{HostPath: "/dev/null", ContainerPath: "/dev/dongle", Permissions: "rw"}},
	}, nil
}

// devicePod returns a pod of a source with a container that requests one device.
func devicePod(pod *v1.Pod) *v1.Pod {
	q := resource.MustParse("1")
	c := &pod.Spec.Containers[0]
	c.Resources = v1.ResourceRequirements{Limits: v1.ResourceList{dongle: q}, Requests: v1.ResourceList{dongle: q}}
	c.Env = []v1.EnvVar{{Name: "OWN", Value: "manifest"}}
	return pod
}

// A static pod waits for its devices without keeping other resources, and starts when they are
// free; its containers get them and its status shows them.
func TestPodWaitsForDevices(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		f := newFakeDevices(0)
		b.devices, b.allocatable = f, cpus("1")
		pod, other := devicePod(testPod("p", "u1", "1")), testPod("other", "u2", "1")
		for _, p := range []*v1.Pod{pod, other} {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
		}
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.until(time.Minute, "it waits", func() bool { return d.status(pod.UID).Reason == "OutOf"+dongle })
		if st := d.status(pod.UID); st.Phase != v1.PodPending || !strings.Contains(st.Message, "requested 1, available 0") {
			t.Errorf("status %s %q", st.Phase, st.Message)
		}
		d.config.deliver(manifest.SourceFile, pod, other)
		b.runs(other.UID)
		f.set(1, nil)
		b.until(time.Minute, "it waits for the CPU", func() bool { return d.status(pod.UID).Reason == outOfCPU })
		d.config.deliver(manifest.SourceFile, pod)
		if took := b.runs(pod.UID); took > time.Minute {
			t.Errorf("started after %s", took)
		}
		st := d.status(pod.UID)
		if got := st.ContainerStatuses[0].AllocatedResourcesStatus; len(got) != 1 || got[0].Name != dongle ||
			got[0].Resources[0].Health != v1.ResourceHealthStatusHealthy {
			t.Errorf("the status shows %+v", got)
		}
		d.config.deliver(manifest.SourceFile)
		b.gone(pod.UID)
		if f.free != 1 || len(f.waiting) > 0 {
			t.Errorf("%d devices are free, %v wait", f.free, f.waiting)
		}
	})
}

// Devices that become available start the pod at once, also right after it found none.
func TestDevicesStartThePodAtOnce(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		f := newFakeDevices(0)
		b.devices = f
		pod := devicePod(testPod("p", "u1", "1"))
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.until(time.Minute, "it waits", func() bool { return d.status(pod.UID).Reason == "OutOf"+dongle })
		f.set(1, nil)
		if took := b.runs(pod.UID); took > 5*time.Second {
			t.Errorf("started %s after there was a device", took)
		}
	})
}

// A plugin that hangs or fails keeps its own pod from starting, and no other.
func TestSlowAndFailingDevices(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		f := newFakeDevices(2)
		slow, failing, plain := devicePod(testPod("slow", "u1", "1")), devicePod(testPod("failing", "u2", "1")),
			testPod("plain", "u3", "1")
		f.slow[slow.UID], f.fault = true, errors.New("the device plugin failed: no firmware")
		b.devices = f
		d := b.start()
		d.config.deliver(manifest.SourceFile, slow, failing, plain)
		if took := b.runs(plain.UID); took > 10*time.Second {
			t.Errorf("a pod without devices started after %s", took)
		}
		b.until(time.Minute, "the fault is shown",
			func() bool { return strings.Contains(d.status(failing.UID).Message, "no firmware") })
		f.set(2, nil)
		b.runs(failing.UID)
		d.config.deliver(manifest.SourceFile, failing, plain)
		b.gone(slow.UID)
	})
}

// A pod of an API server without its devices fails, as at the kubelet.
func TestAPIPodWithoutDevicesIsRejected(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.devices = newFakeDevices(0)
		pod := devicePod(boundPod("p", "u1"))
		d := b.start(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, pod)
		b.until(time.Minute, "it has ended", func() bool { return d.Ended(pod.UID) })
		if st := d.status(pod.UID); st.Phase != v1.PodFailed || st.Reason != "UnexpectedAdmissionError" {
			t.Errorf("status %s %s %s", st.Phase, st.Reason, st.Message)
		}
	})
}

// What a device adds to a container reaches the runtime; the container's own variables win.
func TestDevicesReachTheRuntime(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.devices = newFakeDevices(1)
		pod := devicePod(testPod("p", "u1", "1"))
		d := b.start()
		d.config.deliver(manifest.SourceFile, pod)
		b.runs(pod.UID)
		newest, _ := b.fake.Newest("app")
		config := newest.Config
		var env []string
		for _, e := range config.GetEnvs() {
			env = append(env, e.GetKey()+"="+string(e.GetValue()))
		}
		if !slices.Contains(env, "DONGLE=a") || !slices.Contains(env, "OWN=manifest") || slices.Contains(env, "OWN=plugin") {
			t.Errorf("environment %v", env)
		}
		if n := config.GetDevices(); len(n) != 1 || n[0].GetHostPath() != "/dev/null" ||
			n[0].GetContainerPath() != "/dev/dongle" || n[0].GetPermissions() != "rw" {
			t.Errorf("devices %v", n)
		}
		if config.GetAnnotations()["example.com/a"] != "b" {
			t.Errorf("annotations %v", config.GetAnnotations())
		}
	})
}
