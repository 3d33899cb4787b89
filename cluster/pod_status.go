package cluster

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// conditionManifestFault reports missing or invalid objects that a pod refers to.
const conditionManifestFault v1.PodConditionType = "podstead.io/ManifestFault"

// conditionRevisionHeld reports that the newest revision of a static pod's manifest is not
// in effect.
const conditionRevisionHeld v1.PodConditionType = "podstead.io/RevisionHeld"

// boundStep compares one of the cluster's pods in the API with the local pod, nil
// if it has not been accepted yet. ended reports that all of it has terminated
// here. By the kubelet's rules termination is final, and a deleted pod is removed
// from the API once nothing of it is left and its last status was sent. While a
// finalizer holds its object, the pod stays known and its status is still sent. refused is
// what the API server did not accept of an earlier status, nil if nothing.
func boundStep(local, api *v1.Pod, ended bool, refused *refusedStatus) (step, error) {
	switch {
	case local == nil:
		return step{}, nil
	case !isFinal(&local.Status, &api.Status):
		st := shownStatus(local, api)
		if api.Status.StartTime != nil {
			st.StartTime = api.Status.StartTime
		}
		if refused != nil {
			if err := refused.apply(st, api); err != nil {
				return step{}, err
			}
		}
		s, err := patchStep(api, st)
		if err != nil || s.verb != nothing {
			return s, err
		}
	}
	return removeStep(api, ended), nil
}

// refusedStep rejects one of the cluster's pods that was never accepted here. A deleted one is
// removed from the API.
func refusedStep(api *v1.Pod, why string) (step, error) {
	if api.DeletionTimestamp != nil || podinfo.IsTerminal(api.Status.Phase) {
		return removeStep(api, true), nil
	}
	st := api.Status.DeepCopy()
	st.Phase, st.Reason, st.Message = v1.PodFailed, reasonPodsTooLarge, why
	return patchStep(api, st)
}

// removeStep removes a deleted pod from the API if all of it has terminated here, and its
// last status was sent.
func removeStep(api *v1.Pod, ended bool) step {
	if api.DeletionTimestamp != nil && ended && !heldByFinalizers(api) {
		return step{verb: remove, uid: api.UID}
	}
	return step{}
}

// heldByFinalizers reports whether nothing but the finalizers of other clients keeps a
// deleted pod in the API: the API server removes it with the last of them, and another
// deletion would change nothing.
func heldByFinalizers(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 &&
		(pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0)
}

// isFinal reports whether the API has the final status of a pod: it has terminated
// there, and if it has here, so have all its containers. Of a pod that terminated
// long ago the API may know more than this node.
func isFinal(local, api *v1.PodStatus) bool {
	if !podinfo.IsTerminal(api.Phase) {
		return false
	}
	running := func(c v1.ContainerStatus) bool { return c.State.Terminated == nil }
	return !podinfo.IsTerminal(local.Phase) ||
		!slices.ContainsFunc(slices.Concat(api.InitContainerStatuses, api.ContainerStatuses, api.EphemeralContainerStatuses),
			running)
}

// shownStatus returns a pod's status for the API: with the fields of other
// writers, and the transition times of what has not changed.
func shownStatus(local, shown *v1.Pod) *v1.PodStatus {
	st, have := local.Status.DeepCopy(), &shown.Status
	if len(shown.Spec.EphemeralContainers) == 0 {
		st.EphemeralContainerStatuses = nil // a mirror pod has none in its spec
	}
	// The API server's own fields, which cannot change, and those of the scheduler
	// and controllers.
	st.QOSClass, st.NominatedNodeName = have.QOSClass, have.NominatedNodeName
	st.ResourceClaimStatuses, st.ExtendedResourceClaimStatus = have.ResourceClaimStatuses, have.ExtendedResourceClaimStatus
	st.Conditions = slices.DeleteFunc(st.Conditions, func(c v1.PodCondition) bool { return !ownCondition(&c) })
	for i := range st.Conditions {
		c := &st.Conditions[i]
		if was := conditionOf(have, c.Type); was != nil && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	for _, c := range have.Conditions {
		if !ownCondition(&c) && conditionOf(st, c.Type) == nil {
			st.Conditions = append(st.Conditions, c)
		}
	}
	return st
}

// ownCondition reports whether a node sets and clears a condition.
func ownCondition(c *v1.PodCondition) bool {
	switch c.Type {
	case v1.PodScheduled, v1.PodReady, v1.ContainersReady, v1.PodInitialized, v1.PodReadyToStartContainers,
		v1.PodResizePending, v1.PodResizeInProgress, v1.AllContainersRestarting, conditionManifestFault,
		conditionRevisionHeld:
		return true
	case v1.DisruptionTarget:
		return c.Reason == v1.PodReasonTerminationByKubelet
	}
	return false
}

func conditionOf(st *v1.PodStatus, t v1.PodConditionType) *v1.PodCondition {
	for i := range st.Conditions {
		if st.Conditions[i].Type == t {
			return &st.Conditions[i]
		}
	}
	return nil
}

// patchStep returns the step that sets a pod's status in the API; nothing if it is
// set already.
func patchStep(shown *v1.Pod, want *v1.PodStatus) (step, error) {
	body, err := podStatusPatch(shown.UID, &shown.Status, want)
	if body == nil || err != nil {
		return step{}, err
	}
	return step{verb: patch, uid: shown.UID, body: body}, nil
}

// podStatusPatch returns a strategic merge patch of the status of the pod with
// that UID, and not of a successor of the same name; nil if there is nothing to
// change. It names only the conditions that change, since other writers may be
// changing theirs.
func podStatusPatch(uid types.UID, have, want *v1.PodStatus) ([]byte, error) {
	before, err := fieldsOf(have)
	if err != nil {
		return nil, err
	}
	after, err := fieldsOf(want)
	if err != nil {
		return nil, err
	}
	patch := map[string]any{}
	for name := range before {
		if after[name] == nil && name != "conditions" {
			patch[name] = nil
		}
	}
	for name, value := range after {
		switch {
		case name == "conditions" || bytes.Equal(value, before[name]):
		case name == "podIPs" || name == "hostIPs":
			// Without this directive the lists would be merged.
			var list []any
			if err := json.Unmarshal(value, &list); err != nil {
				return nil, err
			}
			patch[name] = append([]any{map[string]string{"$patch": "replace"}}, list...)
		default:
			patch[name] = withRemovals(before[name], value)
		}
	}
	conditions, err := conditionsPatch(have, want)
	if err != nil {
		return nil, err
	}
	if len(conditions) > 0 {
		patch["conditions"] = conditions
	}
	if len(patch) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": patch})
}

// fieldsOf returns the fields of a status in JSON.
func fieldsOf(st *v1.PodStatus) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(st)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	return fields, json.Unmarshal(text, &fields)
}

// withRemovals returns the value of a patch that turns one value into the other. The
// API server merges objects field by field, so each field that is gone is named
// with a null; every other value replaces the one before.
func withRemovals(before, after json.RawMessage) any {
	var old, merged map[string]json.RawMessage
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(after, &merged) != nil || old == nil || merged == nil {
		return after
	}
	patch := make(map[string]any, len(merged))
	for name, value := range merged {
		patch[name] = withRemovals(old[name], value)
	}
	for name := range old {
		if _, kept := merged[name]; !kept {
			patch[name] = nil
		}
	}
	return patch
}

// conditionsPatch returns the conditions that change, with a null for each of
// their fields that is gone, and the types of those that are removed. The API
// server merges conditions by type: without the nulls a pod that becomes ready would
// keep the reason and the message why it was not.
func conditionsPatch(have, want *v1.PodStatus) (patch []any, err error) {
	before := map[v1.PodConditionType][]byte{}
	for i := range have.Conditions {
		if before[have.Conditions[i].Type], err = json.Marshal(&have.Conditions[i]); err != nil {
			return nil, err
		}
	}
	for i := range want.Conditions {
		c := &want.Conditions[i]
		text, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(text, before[c.Type]) {
			patch = append(patch, withRemovals(before[c.Type], text))
		}
		delete(before, c.Type)
	}
	for _, t := range slices.Sorted(maps.Keys(before)) {
		patch = append(patch, map[string]any{"$patch": "delete", "type": t})
	}
	return patch, nil
}
