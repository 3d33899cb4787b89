package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/podstart"
)

// fakeCgroups has a cgroup for each pod that was ensured and not destroyed.
type fakeCgroups struct {
	mu      sync.Mutex
	root    string
	pods    map[types.UID]string
	parents []string // pods passed to Ensure
	applied map[types.UID]podinfo.Amounts
	fault   error
	stuck   error // returned by Destroy
}

func newFakeCgroups() *fakeCgroups {
	return &fakeCgroups{root: "/root", pods: map[types.UID]string{}, applied: map[types.UID]podinfo.Amounts{}}
}

func (f *fakeCgroups) Ensure(_ context.Context, pod *v1.Pod, parent string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parents = append(f.parents, parent)
	if f.fault != nil {
		return "", f.fault
	}
	if parent == "" {
		parent = f.root + "/pod" + string(pod.UID)
	}
	f.pods[pod.UID] = parent
	f.applied[pod.UID] = podinfo.PodAmounts(pod)
	return parent, nil
}

func (f *fakeCgroups) Fits(pod *v1.Pod) error {
	if pod.Spec.Containers[0].Resources.Requests.Cpu().Value() > 100 {
		return errors.New("this node has no 100 cpus")
	}
	return nil
}

func (f *fakeCgroups) Destroy(_ context.Context, uid types.UID, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stuck != nil {
		return f.stuck
	}
	delete(f.pods, uid)
	return nil
}

func (f *fakeCgroups) Pods() []types.UID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.pods))
}

func (f *fakeCgroups) set(fault, stuck error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.stuck = fault, stuck
}

func (f *fakeCgroups) has(uid types.UID) bool { return slices.Contains(f.Pods(), uid) }

func (b *supervisorHarness) parentOf(uid types.UID) (parent string) {
	for _, s := range b.fake.Sandboxes() {
		if s.UID == string(uid) && s.Ready {
			parent = s.Config.GetLinux().GetCgroupParent()
		}
	}
	return parent
}

// A pod's cgroup exists before its sandbox and is removed before its name is
// free.
func TestCgroupOfAPod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		cgroups := newFakeCgroups()
		b.cgroups = cgroups
		cgroups.set(errors.New("no memory controller"), nil)
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.until(time.Minute, "the pod waits with the reason", func() bool {
			st := d.status("u1")
			return st.Reason == podstart.ReasonFailedCgroup && strings.Contains(st.Message, "no memory controller")
		})
		if n := b.fake.Calls("RunPodSandbox"); n > 0 {
			t.Errorf("%d sandboxes were created without a cgroup", n)
		}
		cgroups.set(nil, nil)
		b.runs("u1")
		if got := b.parentOf("u1"); got != "/root/podu1" {
			t.Errorf("the sandbox is in %q", got)
		}
		// Running containers are not affected by what happens to the
		// cgroup in the meantime, and containers that have to be
		// started are started.
		cgroups.set(errors.New("systemd is away"), nil)
		b.fake.Kill("app")
		b.runs("u1")
		cgroups.set(nil, errors.New("a process does not end"))
		d.config.deliver(file, testPod("web", "u2", "r2"))
		b.after(20 * time.Second)
		if b.running("u1")+b.running("u2") > 0 {
			t.Error("the successor runs while its predecessor has remains")
		}
		cgroups.set(nil, nil)
		b.runs("u2")
		if cgroups.has("u1") {
			t.Error("the predecessor's cgroup is left")
		}
	})
}

// A pod that was created without a cgroup stays without one, over a restart of
// one of its containers, until it needs a new sandbox. A changed root does not
// affect a running pod either.
func TestCgroupOfAnAdoptedPod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		pod := testPod("web", "u1", "r1")
		b.start().config.deliver(file, pod)
		b.runs("u1")
		cgroups := newFakeCgroups()
		b.cgroups = cgroups
		writes := len(b.fake.Writes())
		b.restart(pod)
		b.after(5 * time.Minute)
		b.noWrites(writes)
		b.fake.Kill("app")
		b.runs("u1")
		if got := b.parentOf("u1"); got != "" {
			t.Errorf("the sandbox is in %q", got)
		}
		b.fake.KillSandboxes("web")
		b.until(time.Minute, "a new sandbox is in the pod's cgroup", func() bool { return b.parentOf("u1") == "/root/podu1" })
		b.runs("u1")
		cgroups.mu.Lock()
		cgroups.root = "/other"
		cgroups.mu.Unlock()
		b.fake.Kill("app")
		b.runs("u1")
		if got := cgroups.parents[len(cgroups.parents)-1]; got != "/root/podu1" || b.parentOf("u1") != got {
			t.Errorf("it is expected in %q, and is in %q", got, b.parentOf("u1"))
		}
	})
}

// Cgroups of pods that exist nowhere else are found.
func TestOrphanedCgroup(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		cgroups := newFakeCgroups()
		cgroups.pods["long-gone"] = "/root/podlong-gone"
		b.cgroups = cgroups
		b.fake.Behave("app", critest.Behaviour{})
		d := b.start(file, "http")
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.after(time.Minute)
		if !cgroups.has("long-gone") {
			t.Error("it was removed before all sources were ready")
		}
		d.config.deliver("http")
		b.until(time.Minute, "it is gone", func() bool { return !cgroups.has("long-gone") })
		if !cgroups.has("u1") {
			t.Error("the wanted pod's is gone too")
		}
	})
}
