package supervisor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/noderesources/claims"
)

// fakeResourceClaims prepares the claims of pods, unless it has a fault.
type fakeResourceClaims struct {
	changed chan struct{}

	mu       sync.Mutex
	prepared map[types.UID]bool
	waiting  map[types.UID]bool
	fault    error
	// slow holds Prepare until its context ends. onUnprepare is called by Unprepare.
	slow        map[types.UID]bool
	onUnprepare func()
}

func newFakeClaims() *fakeResourceClaims {
	return &fakeResourceClaims{changed: make(chan struct{}, 1), prepared: map[types.UID]bool{},
		waiting: map[types.UID]bool{}, slow: map[types.UID]bool{}}
}

func (f *fakeResourceClaims) set(fault error) {
	f.mu.Lock()
	f.fault = fault
	f.mu.Unlock()
	f.changed <- struct{}{}
}

func (f *fakeResourceClaims) Prepare(ctx context.Context, pod *v1.Pod) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.slow[pod.UID] {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return ctx.Err()
	}
	if f.fault != nil {
		f.waiting[pod.UID] = true
		return f.fault
	}
	f.prepared[pod.UID] = true
	return nil
}

func (f *fakeResourceClaims) Unprepare(_ context.Context, uid types.UID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.prepared[uid] {
		return nil
	}
	if f.onUnprepare != nil {
		f.onUnprepare()
	}
	if f.fault != nil {
		return f.fault
	}
	delete(f.prepared, uid)
	return nil
}

func (f *fakeResourceClaims) Retain(func(types.UID) bool) {}
func (f *fakeResourceClaims) Changed() <-chan struct{}    { return f.changed }

func (f *fakeResourceClaims) TakeChanged() (uids []types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid := range f.waiting {
		uids = append(uids, uid)
	}
	return uids
}

func (f *fakeResourceClaims) CDIDevices(pod *v1.Pod, c *v1.Container) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(c.Resources.Claims) == 0 {
		return nil, nil
	}
	if !f.prepared[pod.UID] {
		return nil, errors.New("not prepared")
	}
	return []string{"example.com/gpu=0"}, nil
}

// claimPod returns an API pod with a container that has a claim.
func claimPod(name string, uid types.UID) *v1.Pod {
	pod := boundPod(name, uid)
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	pod.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "gpu"}}
	return pod
}

// An API pod waits for its claims with the kubelet's reason, starts as soon as they can be prepared, and
// its containers get their devices. It has not ended before they are unprepared.
func TestPodWaitsForItsClaims(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetVersion("containerd", "2.1.0", nil) // it injects CDI devices
		f := newFakeClaims()
		f.fault = errors.New("the DRA driver example.com is not registered")
		b.claims = f
		pod := claimPod("p", "u1")
		d := b.start(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, pod)
		b.until(time.Minute, "it waits", func() bool {
			st := d.status(pod.UID)
			return st.Phase == v1.PodPending && st.Reason == claims.ReasonFailedPrepare &&
				strings.Contains(st.Message, "example.com")
		})
		f.set(nil)
		if took := b.runs(pod.UID); took > 5*time.Second {
			t.Errorf("started %s after the driver registered", took)
		}
		newest, _ := b.fake.Newest("app")
		if got := newest.Config.GetCDIDevices(); len(got) != 1 || got[0].GetName() != "example.com/gpu=0" {
			t.Errorf("CDI devices: %v", got)
		}
		f.mu.Lock()
		f.fault = errors.New("busy")
		f.onUnprepare = func() {
			if b.running(pod.UID) > 0 {
				t.Error("the claim is unprepared while its container runs")
			}
		}
		f.mu.Unlock()
		gone := claimPod("p", "u1")
		now := metav1.Now()
		gone.DeletionTimestamp = &now
		d.config.update(manifest.Delete, gone)
		b.until(time.Minute, "the fault is shown", func() bool { return strings.Contains(d.status(pod.UID).Message, "busy") })
		if d.Ended(pod.UID) {
			t.Error("it has ended before its claim is unprepared")
		}
		f.set(nil)
		b.until(10*time.Minute, "it has ended", func() bool { return d.Ended(pod.UID) })
		if len(f.prepared) > 0 {
			t.Errorf("prepared: %v", f.prepared)
		}
	})
}

// A driver that hangs keeps its own pod from starting, and no other.
func TestSlowClaims(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		f := newFakeClaims()
		slow, plain := claimPod("slow", "u1"), boundPod("plain", "u2")
		f.slow[slow.UID] = true
		b.claims = f
		d := b.start(manifest.SourceAPI)
		d.config.deliver(manifest.SourceAPI, slow, plain)
		if took := b.runs(plain.UID); took > 10*time.Second {
			t.Errorf("a pod without claims started after %s", took)
		}
		d.config.deliver(manifest.SourceAPI, plain)
		b.gone(slow.UID)
	})
}
