package status

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// phaseOf returns the phase that follows from the container statuses. The rules and
// their order are the kubelet's (kubelet_pods.go getPhase). As there, a static pod
// that is terminating gets no terminal phase for it.
func phaseOf(in Input, st *v1.PodStatus) v1.PodPhase {
	pendingInit, failedInit := countInit(in, st)
	n := countRegular(in, st)
	if n.stopped < len(in.Pod.Spec.Containers) || n.restartable > 0 {
		countSidecars(in, st, &n)
	} else {
		// The work is done: sidecars that still run are to be stopped, and nothing
		// waits for the others. (The kubelet waits forever for one that was created
		// and never started.)
		n.running += runningSidecars(in, st)
	}
	switch {
	case failedInit:
		return v1.PodFailed
	case pendingInit, n.sidecarsPending && !initialized(in), n.waiting > 0:
		return v1.PodPending
	case n.running > 0 && n.unknown == 0:
		return v1.PodRunning
	case n.running == 0 && n.stopped > 0 && n.unknown == 0:
		switch {
		case in.Ended && !podinfo.PolicyOf(in.Pod).Restarts && n.stopped != n.succeeded:
			// The pod does not run again, whatever its restartPolicy.
			return v1.PodFailed
		case in.Ended && !podinfo.PolicyOf(in.Pod).Restarts:
			return v1.PodSucceeded
		case n.restartable > 0:
			return v1.PodRunning
		case n.stopped == n.succeeded:
			return v1.PodSucceeded
		}
		return v1.PodFailed
	}
	return v1.PodPending
}

// Published returns a generated status as it is published: with the phase before the
// end as long as a container may run, such as a sidecar of a pod whose init container
// has failed, or any container of an evicted pod. What reads the phase releases what
// the pod uses, and a Job starts a replacement. (The kubelet withholds the phase from
// the API server, and not from its own /pods.) A terminal phase that was published
// stays. Why such a pod could not be stopped is added to the message of its end, and
// never replaces the reason.
func Published(in Input, decided v1.PodStatus) v1.PodStatus {
	if !podinfo.IsTerminal(decided.Phase) {
		return decided
	}
	st := decided
	if mayRun(in.Observed) {
		if phase := lastPhase(in); !podinfo.IsTerminal(phase) {
			st.Phase, st.Reason, st.Message = phase, "", ""
		}
	}
	if fault := in.KillFault; fault != nil {
		st.Reason, st.Message = cmp.Or(decided.Reason, fault.Reason), fault.Message
		if decided.Message != "" {
			st.Message = decided.Message + "; " + fault.Message
		}
	}
	return st
}

// lastPhase returns the phase that was published last.
func lastPhase(in Input) v1.PodPhase {
	switch source := podinfo.PolicyOf(in.Pod).StatusFromSource; {
	case source && podinfo.IsTerminal(in.Pod.Status.Phase):
		return in.Pod.Status.Phase
	case in.Previous != nil:
		return in.Previous.Phase
	case source && in.Pod.Status.Phase != "":
		return in.Pod.Status.Phase
	case initialized(in):
		return v1.PodRunning
	}
	return v1.PodPending
}

// mayRun reports whether a container may be running: one in unknown state may.
func mayRun(observed *cri.PodStatus) bool {
	if observed == nil {
		return false
	}
	return slices.ContainsFunc(observed.Containers, func(c cri.Container) bool {
		return c.State == cri.StateRunning || c.State == cri.StateUnknown
	})
}

// counts sums up containers for the phase.
type counts struct {
	unknown, running, waiting int
	// stopped counts the regular containers that exited; of these restartable will
	// be restarted and succeeded exited with 0.
	stopped, restartable, succeeded int
	sidecarsPending                 bool
}

// countInit checks the init containers that run to completion.
func countInit(in Input, st *v1.PodStatus) (pending, failed bool) {
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		if podinfo.IsSidecar(c) {
			continue
		}
		s := find(st.InitContainerStatuses, c.Name)
		end := ended(s)
		switch {
		case end == nil, createdNotStarted(s), in.pendingRestart(c.Name):
			pending = true
		case initFailed(end) && !restarts(in, c, failureCode(end)):
			failed = true
		}
	}
	return pending, failed
}

func countRegular(in Input, st *v1.PodStatus) counts {
	var n counts
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		s := find(st.ContainerStatuses, c.Name)
		end := ended(s)
		switch {
		case s == nil:
			n.unknown++
		case s.State.Running != nil:
			n.running++
		case end != nil:
			n.stopped++
			if restarts(in, c, end.ExitCode) || createdNotStarted(s) || in.restartsKilled(c.Name) {
				n.restartable++
			}
			// A container that waits for its restart has not succeeded.
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

// countSidecars adds the sidecars. A sidecar that exited does not count for the
// phase.
func countSidecars(in Input, st *v1.PodStatus, n *counts) {
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		if !podinfo.IsSidecar(c) {
			continue
		}
		s := find(st.InitContainerStatuses, c.Name)
		switch {
		case s == nil:
			n.unknown++
		case s.State.Running != nil:
			n.running++
			n.sidecarsPending = n.sidecarsPending || s.Started == nil || !*s.Started
		case in.pendingRestart(c.Name):
			n.sidecarsPending = true
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

func runningSidecars(in Input, st *v1.PodStatus) (n int) {
	for i := range in.Pod.Spec.InitContainers {
		c := &in.Pod.Spec.InitContainers[i]
		if s := find(st.InitContainerStatuses, c.Name); podinfo.IsSidecar(c) && s != nil && s.State.Running != nil {
			n++
		}
	}
	return n
}

// ended returns how the container terminated, nil if it runs: a container that waits
// with a last termination counts as stopped.
func ended(s *v1.ContainerStatus) *v1.ContainerStateTerminated {
	switch {
	case s == nil || s.State.Running != nil:
		return nil
	case s.State.Terminated != nil:
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

// createdNotStarted reports whether a new instance was created and not started yet.
// The kubelet uses the exit of the previous instance for such a container; a daemon
// that was killed between the two calls would then consider a pod that was to restart
// as terminated.
func createdNotStarted(s *v1.ContainerStatus) bool {
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

// restarts reports whether a container with this exit code is restarted.
func restarts(in Input, c *v1.Container, exitCode int32) bool {
	return len(in.triggers) > 0 || in.pendingRestart(c.Name) || cri.OnExit(in.Pod, c, exitCode) != cri.NoRestart
}

// initFailed reports whether an init container that exited has failed. One that ran
// out of memory has, even if it exited with 0.
func initFailed(end *v1.ContainerStateTerminated) bool {
	return end.ExitCode != 0 || end.Reason == reasonOOMKilled
}

// failureCode returns the exit code that counts for a failed init container.
func failureCode(end *v1.ContainerStateTerminated) int32 {
	if end.ExitCode == 0 {
		return lostExitCode
	}
	return end.ExitCode
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
