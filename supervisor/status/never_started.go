package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// endNeverStarted sets the terminated state, by the kubelet's rule, of containers that
// never started in a pod that has terminated and does not run again: a Job takes the
// exit codes of a pod that failed from there. Of a pod that was not initialized the
// init containers show the failure, and the others keep waiting.
func endNeverStarted(in Input, st *v1.PodStatus) {
	if !finalEnd(in) {
		return
	}
	if len(st.InitContainerStatuses) == 0 || wasInitialized(in, st) {
		endWaiting(st.ContainerStatuses)
	}
	endWaiting(st.InitContainerStatuses[:startedInit(st.InitContainerStatuses)])
}

// finalEnd reports whether the pod has terminated for good.
func finalEnd(in Input) bool { return in.Ended && !podinfo.PolicyOf(in.Pod).Restarts }

func endWaiting(list []v1.ContainerStatus) {
	for i := range list {
		if list[i].State.Terminated == nil {
			list[i].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
				Reason: ReasonStatusUnknown, Message: lostMessage, ExitCode: lostExitCode, ContainerID: list[i].ContainerID,
			}}
		}
	}
}

// wasInitialized reports whether a regular container of a pod with init containers ever
// left the waiting state, or the last init container let them start.
func wasInitialized(in Input, st *v1.PodStatus) bool {
	if slices.ContainsFunc(st.ContainerStatuses, hasStarted) {
		return true
	}
	last := len(in.Pod.Spec.InitContainers) - 1
	if podinfo.IsSidecar(&in.Pod.Spec.InitContainers[last]) {
		return false // it does not run any more, whether or not it was started
	}
	end := ended(&st.InitContainerStatuses[last])
	return end != nil && end.ExitCode == 0
}

func hasStarted(s v1.ContainerStatus) bool {
	return s.State.Waiting == nil || s.LastTerminationState.Terminated != nil
}

// startedInit returns how many init containers, from the first on, were to be started:
// at least the first.
func startedInit(list []v1.ContainerStatus) int {
	for i := len(list) - 1; i > 0; i-- {
		if hasStarted(list[i]) {
			return i + 1
		}
	}
	return min(len(list), 1)
}
