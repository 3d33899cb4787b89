package status

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// phaseOf is the phase that the container statuses amount to. The rules and
// their order are those of the kubelet (kubelet_pods.go getPhase). As there, a
// static pod that is being killed gets no terminal phase for it.
func phaseOf(pod *v1.Pod, st *v1.PodStatus, initialized bool) v1.PodPhase {
	pendingInit, failedInit := countInit(pod, st)
	n := countRegular(pod, st)
	countSidecars(pod, st, &n)
	switch {
	case failedInit:
		return v1.PodFailed
	case pendingInit, n.sidecarsPending && !initialized, n.waiting > 0:
		return v1.PodPending
	case n.running > 0 && n.unknown == 0:
		return v1.PodRunning
	case n.running == 0 && n.stopped > 0 && n.unknown == 0:
		switch {
		case n.restartable > 0:
			return v1.PodRunning
		case n.stopped == n.succeeded:
			return v1.PodSucceeded
		}
		return v1.PodFailed
	}
	return v1.PodPending
}

// counts sums up containers for the phase.
type counts struct {
	unknown, running, waiting int
	// stopped are the regular ones that ended; of these restartable will be
	// started again and succeeded exited with 0.
	stopped, restartable, succeeded int
	sidecarsPending                 bool
}

// countInit looks at the init containers that run to completion.
func countInit(pod *v1.Pod, st *v1.PodStatus) (pending, failed bool) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if isSidecar(c) {
			continue
		}
		s := find(st.InitContainerStatuses, c.Name)
		end := ended(s)
		switch {
		case end == nil, aboutToStart(s):
			pending = true
		case end.ExitCode != 0 && !restartable(pod, c, end.ExitCode):
			failed = true
		}
	}
	return pending, failed
}

func countRegular(pod *v1.Pod, st *v1.PodStatus) counts {
	var n counts
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		s := find(st.ContainerStatuses, c.Name)
		end := ended(s)
		switch {
		case s == nil:
			n.unknown++
		case s.State.Running != nil:
			n.running++
		case end != nil:
			n.stopped++
			if restartable(pod, c, end.ExitCode) || aboutToStart(s) {
				n.restartable++
			}
			// One that waits to be started again has not succeeded.
			if s.State.Terminated != nil && end.ExitCode == 0 {
				n.succeeded++
			}
		case s.State.Waiting != nil:
			n.waiting++
		default:
			n.unknown++
		}
	}
	return n
}

// countSidecars adds the restartable init containers. One that exited does
// not count for the phase.
func countSidecars(pod *v1.Pod, st *v1.PodStatus, n *counts) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if !isSidecar(c) {
			continue
		}
		s := find(st.InitContainerStatuses, c.Name)
		switch {
		case s == nil:
			n.unknown++
		case s.State.Running != nil:
			n.running++
			n.sidecarsPending = n.sidecarsPending || s.Started == nil || !*s.Started
		case ended(s) != nil:
		case s.State.Waiting != nil:
			n.waiting++
			n.sidecarsPending = true
		default:
			n.unknown++
			n.sidecarsPending = true
		}
	}
}

// ended is how the container ended, if it is not running: one that waits with
// a last termination counts as stopped.
func ended(s *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case s == nil || s.State.Running != nil:
		return nil
	case s.State.Terminated != nil:
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

// aboutToStart reports whether a new instance has been made and only has to be
// started. The kubelet judges such a container by the end of the instance
// before; a daemon that was killed between the two calls would then take a pod
// that was to run again as ended for good.
func aboutToStart(s *v1.ContainerStatus) bool {
	return s.State.Waiting != nil && s.State.Waiting.Reason == "" && s.ContainerID != ""
}

// initialized reports whether a regular container was started in the sandbox
// that is in use: sidecars that restart after that do not make the pod pending.
func initialized(in Input) bool {
	if in.Observed == nil || len(in.Observed.Sandboxes) == 0 {
		return false
	}
	sandbox := in.Observed.Sandboxes[0].ID
	for i := range in.Observed.Containers {
		c := &in.Observed.Containers[i]
		started := c.State == cri.StateRunning || c.State == cri.StateExited
		if started && c.SandboxID == sandbox && isRegular(in.Pod, c.Name) {
			return true
		}
	}
	return false
}

// restartable reports whether a container that exited so is started again.
func restartable(pod *v1.Pod, c *v1.Container, exitCode int32) bool {
	policy := pod.Spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = v1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return exitCode != 0
	}
	return true
}

// isSidecar reports whether an init container keeps running beside the pod.
func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func isRegular(pod *v1.Pod, name string) bool {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return true
		}
	}
	return false
}

func find(list []v1.ContainerStatus, name string) *v1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}
