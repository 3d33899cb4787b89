package cri

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Ephemeral returns a pod's ephemeral containers in the form of the others: they
// have the same fields, except for the target container.
func Ephemeral(pod *v1.Pod) []v1.Container {
	list := make([]v1.Container, len(pod.Spec.EphemeralContainers))
	for i := range list {
		list[i] = v1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
	}
	return list
}

// targetOf returns the container whose processes an ephemeral container shares,
// empty for none and for all other containers.
func targetOf(pod *v1.Pod, name string) string {
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return c.TargetContainerName
		}
	}
	return ""
}

func isEphemeral(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c v1.EphemeralContainer) bool { return c.Name == name })
}

// planEphemeral plans the ephemeral containers. They are for debugging a pod in
// any state: each is started once and never restarted.
func (v *planner) planEphemeral(a *Actions) {
	if v.Pod.DeletionTimestamp != nil {
		return
	}
	for i := range v.Pod.Spec.EphemeralContainers {
		name := v.Pod.Spec.EphemeralContainers[i].Name
		if v.last[name] == nil && !v.Ran[name] && !ranBefore(v.Pod, name) {
			a.StartEphemeral = append(a.StartEphemeral, i)
		}
	}
}

// ranBefore reports whether an ephemeral container was started according to the
// status at the API server: its remains may be gone.
func ranBefore(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, func(s v1.ContainerStatus) bool {
		return s.Name == name && (s.State.Running != nil || s.State.Terminated != nil ||
			s.LastTerminationState.Terminated != nil)
	})
}
