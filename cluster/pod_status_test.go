package cluster

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// aBound returns an API pod in its local form, and as it is in the API.
func aBound() (local, api *v1.Pod) {
	api = &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "p1", ResourceVersion: "5", Generation: 2},
		Spec:       v1.PodSpec{NodeName: "edge", Containers: []v1.Container{{Name: "main", Image: "x"}}},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, QOSClass: v1.PodQOSBestEffort, PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}},
			Conditions: []v1.PodCondition{
				{Type: "example.com/gate", Status: v1.ConditionTrue},
				{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(100, 0))},
				{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(50, 0))},
			},
			ContainerStatuses: []v1.ContainerStatus{
				{Name: "main", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}},
		},
	}
	local = api.DeepCopy()
	local.Annotations = map[string]string{podinfo.AnnotationSource: "api"}
	for i := range local.Status.Conditions {
		local.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Unix(200, 0))
	}
	return local, api
}

func TestBoundStep(t *testing.T) {
	terminated := []v1.ContainerStatus{
		{Name: "main", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1}}}}
	for name, test := range map[string]struct {
		change func(local, api *v1.Pod)
		ended  bool
		want   verb
	}{
		"equal except for times": {func(_, _ *v1.Pod) {}, false, nothing},
		"another address":        {func(l, _ *v1.Pod) { l.Status.PodIP = "10.0.0.2" }, false, patch},
		"another client sets a gate": {func(_, a *v1.Pod) { a.Status.Conditions[0].Status = v1.ConditionFalse }, false,
			nothing},
		"the scheduler nominates": {func(_, a *v1.Pod) { a.Status.NominatedNodeName = "edge" }, false, nothing},
		"it is no longer ready": {func(l, _ *v1.Pod) { l.Status.Conditions[1].Status = v1.ConditionFalse }, false,
			patch},
		"it is deleted and still ends": {func(_, a *v1.Pod) { a.DeletionTimestamp = &metav1.Time{} }, false, nothing},
		"it is deleted and has ended":  {func(_, a *v1.Pod) { a.DeletionTimestamp = &metav1.Time{} }, true, remove},
		"it has ended, not deleted":    {func(_, _ *v1.Pod) {}, true, nothing},
		"its last status comes first": {
			func(l, a *v1.Pod) { a.DeletionTimestamp, l.Status.ContainerStatuses = &metav1.Time{}, terminated }, true, patch},
		"termination is final": {func(_, a *v1.Pod) { a.Status.Phase = v1.PodFailed }, false, nothing},
		"it has ended":         {func(l, _ *v1.Pod) { l.Status.Phase = v1.PodFailed }, false, patch},
		"a container ends after the pod": {func(l, a *v1.Pod) {
			l.Status.Phase, a.Status.Phase, l.Status.ContainerStatuses = v1.PodFailed, v1.PodFailed, terminated
		}, false, patch},
		"the API has more on an old exit": {func(l, a *v1.Pod) {
			l.Status.Phase, a.Status.Phase, a.Status.ContainerStatuses = v1.PodFailed, v1.PodFailed, terminated
			l.Status.PodIP, l.Status.ContainerStatuses = "", nil
		}, false, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			local, api := aBound()
			test.change(local, api)
			got, err := boundStep(local, api, test.ended, nil)
			if err != nil || got.verb != test.want {
				t.Fatalf("%v %s, %v; want %v", got.verb, got.body, err, test.want)
			}
			if got.verb != nothing && got.uid != "p1" {
				t.Errorf("of %q", got.uid)
			}
		})
	}
	if s, err := boundStep(nil, &v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}, false,
		nil); err != nil || s.verb != nothing {
		t.Errorf("a pod that was not accepted: %v %v", s.verb, err)
	}
}

// A patch contains only the changes: another client may be writing its own
// condition at the same time. Removals are explicit.
func TestPodStatusPatch(t *testing.T) {
	local, api := aBound()
	local.Status.PodIPs = []v1.PodIP{{IP: "10.0.0.2"}}
	local.Status.PodIP = "10.0.0.2"
	local.Status.ContainerStatuses = nil
	local.Status.Conditions[1].Status = v1.ConditionFalse
	local.Status.Conditions[2].Type = v1.PodInitialized // PodScheduled is removed
	want := shownStatus(local, api)
	body, err := podStatusPatch(api.UID, &api.Status, want)
	if err != nil {
		t.Fatal(err)
	}
	var got, expected any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"metadata": {"uid": "p1"}, "status": {
		"podIP": "10.0.0.2", "podIPs": [{"$patch": "replace"}, {"ip": "10.0.0.2"}], "containerStatuses": null,
		"conditions": [
			{"type": "Ready", "status": "False", "lastProbeTime": null, "lastTransitionTime": "1970-01-01T00:03:20Z"},
			{"type": "Initialized", "status": "True", "lastProbeTime": null, "lastTransitionTime": "1970-01-01T00:03:20Z"},
			{"type": "PodScheduled", "$patch": "delete"}
		]}}`), &expected); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, expected) {
		t.Errorf("patch %s", body)
	}
	if again, err := podStatusPatch(api.UID, want, want); err != nil || again != nil {
		t.Errorf("second comparison: %s %v", again, err)
	}
}
