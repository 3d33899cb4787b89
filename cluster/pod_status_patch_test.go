package cluster

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// applied returns the status that an API server stores after a patch of
// podStatusPatch.
func applied(t *testing.T, have *v1.PodStatus, patch []byte) *v1.PodStatus {
	t.Helper()
	original, err := json.Marshal(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p1"}, Status: *have})
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, v1.Pod{})
	if err != nil {
		t.Fatalf("patch %s: %v", patch, err)
	}
	var pod v1.Pod
	if err := json.Unmarshal(merged, &pod); err != nil {
		t.Fatal(err)
	}
	return &pod.Status
}

// sorted returns a status with its conditions ordered by type: the order that
// an API server gives them has no meaning.
func sorted(st *v1.PodStatus) *v1.PodStatus {
	st = st.DeepCopy()
	slices.SortFunc(st.Conditions,
		func(a, b v1.PodCondition) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return st
}

// For any two statuses, the patch turns one into the other, and a second
// comparison finds nothing to change.
func TestPodStatusPatchApplies(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		have, want := randomStatus(r), randomStatus(r)
		patch, err := podStatusPatch("p1", have, want)
		if err != nil {
			t.Fatal(err)
		}
		got := have
		if patch != nil {
			got = applied(t, have, patch)
		}
		if !equality.Semantic.DeepEqual(sorted(got), sorted(want)) {
			t.Fatalf("patch %s\nturns %s\ninto  %s\nwant  %s", patch, asJSON(have), asJSON(got), asJSON(want))
		}
		if again, err := podStatusPatch("p1", got, want); again != nil || err != nil {
			t.Fatalf("the next comparison patches again: %s, %v", again, err)
		}
	}
}

// A pod that becomes ready loses the reason why it was not.
func TestPodStatusPatchRemovesReason(t *testing.T) {
	have := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse,
		Reason: "ContainersNotReady", Message: "containers with unready status: [main]"}}}
	want := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
	patch, err := podStatusPatch("p1", have, want)
	if err != nil {
		t.Fatal(err)
	}
	if got := applied(t, have, patch).Conditions[0]; got.Reason != "" || got.Message != "" {
		t.Errorf("the condition is %+v after patch %s", got, patch)
	}
}

func asJSON(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}

func randomStatus(r *rand.Rand) *v1.PodStatus {
	word := func() string { return []string{"", "a", "b"}[r.IntN(3)] }
	at := func() metav1.Time {
		return []metav1.Time{{}, metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))}[r.IntN(3)]
	}
	st := &v1.PodStatus{
		Phase: v1.PodPhase(word()), Reason: word(), Message: word(), HostIP: word(), PodIP: word(), NominatedNodeName: word(),
		QOSClass: v1.PodQOSClass(word()), ObservedGeneration: int64(r.IntN(3)),
	}
	if start := at(); !start.IsZero() {
		st.StartTime = &start
	}
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		if r.IntN(2) == 0 {
			st.PodIPs = append(st.PodIPs, v1.PodIP{IP: ip})
			st.HostIPs = append(st.HostIPs, v1.HostIP{IP: ip})
		}
	}
	for _, kind := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady, v1.PodResizePending, v1.DisruptionTarget} {
		if r.IntN(3) > 0 {
			st.Conditions = append(st.Conditions, v1.PodCondition{
				Type: kind, Status: v1.ConditionStatus(word()), Reason: word(), Message: word(),
				LastTransitionTime: at(), LastProbeTime: at(), ObservedGeneration: int64(r.IntN(2)),
			})
		}
	}
	for _, name := range []string{"main", "other"} {
		if r.IntN(3) == 0 {
			continue
		}
		c := v1.ContainerStatus{Name: name, RestartCount: int32(r.IntN(2)), Image: word(), ContainerID: word()}
		switch r.IntN(3) {
		case 0:
			c.State.Running = &v1.ContainerStateRunning{StartedAt: at()}
		case 1:
			c.State.Waiting = &v1.ContainerStateWaiting{Reason: word(), Message: word()}
		}
		if r.IntN(2) == 0 {
			c.AllocatedResources = randomResources(r)
		}
		st.ContainerStatuses = append(st.ContainerStatuses, c)
	}
	if r.IntN(2) == 0 {
		st.Resources = &v1.ResourceRequirements{Requests: randomResources(r), Limits: randomResources(r)}
	}
	return st
}

func randomResources(r *rand.Rand) v1.ResourceList {
	var list v1.ResourceList
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if r.IntN(2) == 0 {
			if list == nil {
				list = v1.ResourceList{}
			}
			list[name] = *resource.NewQuantity(int64(1+r.IntN(2)), resource.DecimalSI)
		}
	}
	return list
}
