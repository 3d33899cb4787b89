package admit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// cpuNode returns the allocatable resources of a node with this much CPU.
func cpuNode(amount string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
}

func nothingRuns() *cri.Observed { return &cri.Observed{} }

// A denied pod is notified when the pod that blocks it has ended, and not when it
// begins to end.
func TestDeniedPodIsNotifiedWhenThereIsRoom(t *testing.T) {
	var notified []types.UID
	a := NewReservations(cpuNode("1"), nil, nothingRuns, func(uid types.UID) { notified = append(notified, uid) })
	first, second := cpu(t, "first", "1", "").Pod, cpu(t, "second", "1", "").Pod
	if d := a.Reserve(first, time.Time{}); d.Denied != nil {
		t.Fatalf("denied: %+v", d.Denied)
	}
	if d := a.Reserve(second, time.Time{}); d.Denied == nil || d.Provisional {
		t.Fatalf("%+v", d)
	}
	a.Terminating(first.UID)
	if len(notified) > 0 || a.Fits(second) {
		t.Errorf("notified %v before the first has ended", notified)
	}
	a.Release(first.UID, false)
	if !slices.Equal(notified, []types.UID{"second"}) {
		t.Errorf("notified %v, want second", notified)
	}
	if d := a.Reserve(second, time.Time{}); d.Denied != nil || !a.Holds(second.UID) {
		t.Errorf("denied: %+v", d.Denied)
	}
}

// A pod that runs without a manifest keeps its resources until nothing of it runs.
func TestUntrackedPodHoldsItsResources(t *testing.T) {
	running := &cri.Pod{
		UID: "old", Name: "old", Namespace: "default", Sandboxes: []cri.Sandbox{{Ready: true}},
		Containers: []cri.Container{{Name: "a", State: cri.StateRunning,
			Resources: &cri.Resources{Requests: map[v1.ResourceName]int64{v1.ResourceCPU: 1000}}}},
	}
	own := []*cri.Pod{running}
	notified := 0
	a := NewReservations(cpuNode("1"), nil, func() *cri.Observed { return &cri.Observed{Own: own} },
		func(types.UID) { notified++ })
	pod := cpu(t, "new", "1", "").Pod
	if d := a.Reserve(pod, time.Time{}); d.Denied == nil {
		t.Fatal("admitted next to an untracked pod that uses all there is")
	}
	a.ReleaseUntracked()
	if notified != 0 {
		t.Error("notified while the untracked pod runs")
	}
	own = nil
	a.ReleaseUntracked()
	if d := a.Reserve(pod, time.Time{}); notified != 1 || d.Denied != nil {
		t.Errorf("notified %d times, denied %+v", notified, d.Denied)
	}
}

// BenchmarkAdmitAll measures the start of a node with a thousand pods, with
// room for all of them and for half.
func BenchmarkAdmitAll(b *testing.B) {
	b.Run("all", func(b *testing.B) { admitAll(b, "20", 1000) })
	b.Run("half", func(b *testing.B) { admitAll(b, "5", 500) })
}

func admitAll(b *testing.B, capacity string, fit int) {
	var pods []*v1.Pod
	for i := range 1000 {
		pod := cpu(b, fmt.Sprintf("p%03d", i), "10m", "").Pod
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: int32(1000 + i)}}
		pods = append(pods, pod)
	}
	for b.Loop() {
		a := NewReservations(cpuNode(capacity), nil, nothingRuns, func(types.UID) {})
		for _, pod := range pods {
			a.Announce(pod)
		}
		for i := range pods {
			a.Reserve(pods[len(pods)-1-i], time.Time{})
		}
		// Pods that were denied while not all had been decided request
		// again.
		admitted := 0
		for _, pod := range pods {
			if a.Reserve(pod, time.Time{}).Denied == nil {
				admitted++
			}
		}
		if admitted != fit {
			b.Fatalf("%d were admitted, want %d", admitted, fit)
		}
	}
}

// After a reboot the pod that starts first is not resized into the resources
// that another pod, which starts a moment later, ran with before.
func TestStartGoesBeforeResize(t *testing.T) {
	a := NewReservations(cpuNode("3"), nil, nothingRuns, func(types.UID) {})
	small, large, other := cpu(t, "web", "1", "").Pod, cpu(t, "web", "3", "").Pod, cpu(t, "zz", "1", "").Pod
	a.Announce(small)
	a.Announce(other)
	if d := a.Reserve(small, time.Time{}); d.Denied != nil {
		t.Fatalf("denied: %+v", d.Denied)
	}
	if d := a.UpdateRunning(small, large, small); d.Denied == nil {
		t.Error("resized before the other pod has decided")
	}
	// The other pod has been desired for less time, and the resize already
	// waits.
	if d := a.Reserve(other, time.Time{}); d.Denied != nil {
		t.Errorf("the start waits for the resize: %+v", d.Denied)
	}
	if d := a.UpdateRunning(small, large, small); d.Denied == nil {
		t.Error("resized with what the other pod has")
	}
}

// Of two pods that wait to grow the Guaranteed one goes first, although the other has
// waited for longer.
func TestGuaranteedPodGrowsFirst(t *testing.T) {
	a := NewReservations(cpuNode("4"), nil, nothingRuns, func(types.UID) {})
	guaranteed := func(amount string) *v1.Pod {
		return podOf(t, "zz",
			fmt.Sprintf(
				`{containers: [{name: a, resources: {requests: {cpu: %[1]q, memory: 1Mi}, limits: {cpu: %[1]q, memory: 1Mi}}}]}`,
				amount))
	}
	other, first, second := cpu(t, "other", "2", "").Pod, cpu(t, "aa", "1", "").Pod, guaranteed("1")
	for _, pod := range []*v1.Pod{other, first, second} {
		if d := a.Reserve(pod, time.Time{}); d.Denied != nil {
			t.Fatalf("denied: %+v", d.Denied)
		}
		a.UpdateRunning(pod, pod, pod)
	}
	large, largeGuaranteed := cpu(t, "aa", "3", "").Pod, guaranteed("3")
	if a.UpdateRunning(first, large, first).Denied == nil ||
		a.UpdateRunning(second, largeGuaranteed, second).Denied == nil {
		t.Fatal("resized without room")
	}
	a.Release(other.UID, false)
	if d := a.UpdateRunning(first, large, first); d.Denied == nil {
		t.Error("the Burstable pod was resized first")
	}
	if d := a.UpdateRunning(second, largeGuaranteed, second); d.Denied != nil {
		t.Errorf("the Guaranteed pod was denied: %+v", d.Denied)
	}
}
