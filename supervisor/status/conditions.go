package status

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Reasons of conditions, the kubelet's.
const (
	reasonUnknownStatuses = "UnknownContainerStatuses"
	reasonPodCompleted    = "PodCompleted"
	reasonPodFailed       = "PodFailed"
	reasonNotReady        = "ContainersNotReady"
	reasonNotInitialized  = "ContainersNotInitialized"
	reasonGatesNotReady   = "ReadinessGatesNotReady"
	// reasonContainerExited is the reason of AllContainersRestarting. It is not the
	// kubelet's.
	reasonContainerExited = "ContainerExited"
	// reasonManifestFaulty is the reason of ManifestFault.
	reasonManifestFaulty = "ManifestFaulty"
	// reasonObjectsChanged is the reason of EnvironmentOutdated.
	reasonObjectsChanged = "ObjectsChanged"
)

// generated are the types of the conditions that Generate generates. All others
// belong to other controllers and are kept.
var generated = map[v1.PodConditionType]bool{
	v1.PodResizePending:          true,
	v1.PodResizeInProgress:       true,
	v1.PodReadyToStartContainers: true,
	v1.PodInitialized:            true,
	v1.PodReady:                  true,
	v1.ContainersReady:           true,
	v1.PodScheduled:              true,
	v1.AllContainersRestarting:   true,
	ManifestFault:                true,
	RevisionHeld:                 true,
	EnvironmentOutdated:          true,
}

// conditions returns the pod's conditions in the kubelet's order: foreign ones first.
func conditions(in Input, st *v1.PodStatus) []v1.PodCondition {
	list := foreignConditions(in)
	foreign := list
	list = append(list, resizeConditions(in, st)...)
	if c := disruptionCondition(in.Record.Disruption); c != nil {
		list = append(list, *c)
	}
	all := containersReady(in.Pod, st)
	list = append(list,
		readyToStart(in),
		podInitialized(in.Pod, st),
		podReady(in.Pod, foreign, all),
		all,
		v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue},
	)
	if cri.MayRestartAll(in.Pod) {
		list = append(list, allRestarting(in))
	}
	if in.ManifestFault != "" {
		list = append(list, v1.PodCondition{
			Type: ManifestFault, Status: v1.ConditionTrue,
			Reason: reasonManifestFaulty, Message: in.ManifestFault,
		})
	}
	if held := in.RevisionHeld; held != nil {
		list = append(list, v1.PodCondition{Type: RevisionHeld, Status: v1.ConditionTrue, Reason: held.Reason,
			Message: held.Message})
	}
	if in.Outdated != "" {
		list = append(list, v1.PodCondition{Type: EnvironmentOutdated, Status: v1.ConditionTrue, Reason: reasonObjectsChanged,
			Message: in.Outdated})
	}
	for i := range list {
		stamp(in, &list[i])
	}
	return list
}

// stamp keeps the transition time unless the status changed.
func stamp(in Input, c *v1.PodCondition) {
	if !isGenerated(c) {
		return
	}
	if c.ObservedGeneration == 0 {
		c.ObservedGeneration = in.Pod.Generation
	}
	c.LastTransitionTime = *seconds(in.Now)
	if in.Previous == nil {
		return
	}
	for i := range in.Previous.Conditions {
		old := &in.Previous.Conditions[i]
		if old.Type == c.Type && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
			return
		}
	}
}

// foreignConditions returns the conditions that are not generated, from the last
// status, or from the pod itself if that has them: an API pod.
func foreignConditions(in Input) []v1.PodCondition {
	from := in.Pod.Status.Conditions
	if in.Previous != nil && !podinfo.PolicyOf(in.Pod).StatusFromSource {
		from = in.Previous.Conditions
	}
	var list []v1.PodCondition
	for i := range from {
		if !isGenerated(&from[i]) {
			list = append(list, from[i])
		}
	}
	return list
}

// SameForeignConditions reports whether the conditions of other controllers are equal
// in two statuses.
func SameForeignConditions(a, b *v1.PodStatus) bool {
	foreign := func(st *v1.PodStatus) []v1.PodCondition {
		return slices.DeleteFunc(slices.Clone(st.Conditions), func(c v1.PodCondition) bool { return isGenerated(&c) })
	}
	return equality.Semantic.DeepEqual(foreign(a), foreign(b))
}

// readyToStart is true if containers can be started in the present sandbox: it is
// ready, has its network, and no other has to be created.
func readyToStart(in Input) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionFalse}
	if in.Observed == nil || len(in.Observed.Sandboxes) == 0 {
		return c
	}
	ready := 0
	for i := range in.Observed.Sandboxes {
		if in.Observed.Sandboxes[i].Ready {
			ready++
		}
	}
	newest := &in.Observed.Sandboxes[0]
	hostNetwork := in.Pod.Spec.HostNetwork
	if newest.Ready && ready == 1 && newest.HostNetwork == hostNetwork && (hostNetwork || len(newest.IPs) > 0) {
		c.Status = v1.ConditionTrue
	}
	return c
}

func podInitialized(pod *v1.Pod, st *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionFalse}
	if len(st.InitContainerStatuses)+len(st.ContainerStatuses) == 0 && len(pod.Spec.InitContainers) > 0 {
		c.Reason = reasonUnknownStatuses
		return c
	}
	var unknown, incomplete []string
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		s := find(st.InitContainerStatuses, spec.Name)
		switch {
		case s == nil:
			unknown = append(unknown, spec.Name)
		case podinfo.IsSidecar(spec) && (s.Started == nil || !*s.Started), !podinfo.IsSidecar(spec) && !s.Ready:
			incomplete = append(incomplete, spec.Name)
		}
	}
	if st.Phase == v1.PodSucceeded && len(unknown) == 0 {
		c.Status, c.Reason = v1.ConditionTrue, reasonPodCompleted
		return c
	}
	// A pod whose sidecars restart stays initialized.
	if anyStarted(st.ContainerStatuses) {
		c.Status = v1.ConditionTrue
		return c
	}
	c.Message = messages(unknown, incomplete, "incomplete")
	if c.Message == "" {
		c.Status = v1.ConditionTrue
		return c
	}
	c.Reason = reasonNotInitialized
	return c
}

func containersReady(pod *v1.Pod, st *v1.PodStatus) v1.PodCondition {
	c := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionFalse}
	if st.Phase == v1.PodFailed {
		c.Reason = reasonPodFailed
		return c
	}
	if len(st.InitContainerStatuses)+len(st.ContainerStatuses) == 0 {
		c.Reason = reasonUnknownStatuses
		return c
	}
	var unknown, unready []string
	note := func(s *v1.ContainerStatus, name string) {
		switch {
		case s == nil:
			unknown = append(unknown, name)
		case !s.Ready:
			unready = append(unready, name)
		}
	}
	for i := range pod.Spec.InitContainers {
		if spec := &pod.Spec.InitContainers[i]; podinfo.IsSidecar(spec) {
			note(find(st.InitContainerStatuses, spec.Name), spec.Name)
		}
	}
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		note(find(st.ContainerStatuses, name), name)
	}
	if st.Phase == v1.PodSucceeded && len(unknown) == 0 {
		c.Reason = reasonPodCompleted
		return c
	}
	c.Message = messages(unknown, unready, "unready")
	if c.Message == "" {
		c.Status = v1.ConditionTrue
		return c
	}
	c.Reason = reasonNotReady
	return c
}

// podReady combines ContainersReady with the pod's readiness gates.
func podReady(pod *v1.Pod, foreign []v1.PodCondition, all v1.PodCondition) v1.PodCondition {
	c := all
	c.Type = v1.PodReady
	if c.Status != v1.ConditionTrue {
		return c
	}
	var unmet []string
	for _, gate := range pod.Spec.ReadinessGates {
		status, found := v1.ConditionUnknown, false
		for i := range foreign {
			if foreign[i].Type == gate.ConditionType {
				status, found = foreign[i].Status, true
			}
		}
		switch {
		case !found:
			unmet = append(unmet, fmt.Sprintf("the condition %q of a readiness gate is not set", gate.ConditionType))
		case status != v1.ConditionTrue:
			unmet = append(unmet, fmt.Sprintf("the condition %q of a readiness gate is %v", gate.ConditionType, status))
		}
	}
	if len(unmet) > 0 {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, reasonGatesNotReady, strings.Join(unmet, ", ")
	}
	return c
}

// allRestarting is true while all containers are to restart, until the last previous
// instance is removed. Only pods with a rule for that have it.
func allRestarting(in Input) v1.PodCondition {
	c := v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse}
	if len(in.triggers) > 0 {
		trigger := in.triggers[0]
		c.Status, c.Reason = v1.ConditionTrue, reasonContainerExited
		c.Message = fmt.Sprintf("all containers are restarted because %s exited with %d", trigger.Name, trigger.ExitCode)
	}
	return c
}

// anyStarted reports whether a regular container runs or has run.
func anyStarted(list []v1.ContainerStatus) bool {
	for i := range list {
		s := &list[i]
		if s.State.Running != nil || ended(s) != nil || s.Started != nil && *s.Started {
			return true
		}
	}
	return false
}

// messages lists the containers for which a condition is false.
func messages(unknown, lacking []string, word string) string {
	var parts []string
	if len(unknown) > 0 {
		parts = append(parts, fmt.Sprintf("containers with unknown status: %v", unknown))
	}
	if len(lacking) > 0 {
		parts = append(parts, fmt.Sprintf("containers with %s status: %v", word, lacking))
	}
	return strings.Join(parts, ", ")
}
