package podtable

import (
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Containers returns the number of containers of a pod that run at the same time: the regular
// containers and the sidecars.
func Containers(p *v1.Pod) int {
	n := 0
	for range podinfo.LongRunning(&p.Spec) {
		n++
	}
	return n
}

// sidecars returns the names of the sidecars of a pod.
func sidecars(p *v1.Pod) map[string]bool {
	names := map[string]bool{}
	for c := range podinfo.EachContainer(&p.Spec, podinfo.InitContainers) {
		if podinfo.IsSidecar(c) {
			names[c.Name] = true
		}
	}
	return names
}

// Tally counts the ready ones of Containers and all restarts, and returns when the last
// container terminated, zero if none has.
func Tally(p *v1.Pod) (ready, restarts int, last time.Time) {
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			restarts += int(c.RestartCount)
			if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(last) {
				last = t.FinishedAt.Time
			}
		}
	}
	isSidecar := sidecars(p)
	for _, c := range p.Status.InitContainerStatuses {
		if isSidecar[c.Name] && c.Ready && c.State.Running != nil {
			ready++
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.Ready && c.State.Running != nil {
			ready++
		}
	}
	return ready, restarts, last
}

// Restarts returns the number of restarts, and the time since the last one.
func Restarts(n int, last, now time.Time) string {
	if n == 0 || last.IsZero() {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d (%s ago)", n, duration.HumanDuration(now.Sub(last)))
}

// Age returns the time since the pod was started.
func Age(p *v1.Pod, now time.Time) string {
	if p.Status.StartTime == nil {
		return "<none>"
	}
	return duration.HumanDuration(now.Sub(p.Status.StartTime.Time))
}

// State returns the content of the STATUS column: the most specific reason, first of the
// init containers, then of the containers, then the phase.
func State(p *v1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "Terminating"
	}
	if p.Status.Reason != "" {
		return p.Status.Reason
	}
	if s := initState(p); s != "" {
		return s
	}
	state := string(p.Status.Phase)
	running := false
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := p.Status.ContainerStatuses[i]
		if s := containerState(c.State); s != "" {
			state = s
		} else if c.State.Running != nil && c.Ready {
			running = true
		}
	}
	if state == "Completed" && running {
		if readyCondition(p) {
			return "Running"
		}
		return "NotReady"
	}
	switch {
	case state == "":
		return "Unknown"
	case state == "Completed" && p.Status.Phase == v1.PodFailed:
		// kubectl shows the state of the first container, which may have completed although
		// another one failed.
		return "Error"
	}
	return state
}

func readyCondition(p *v1.Pod) bool { return isTrue(p, v1.PodReady) }

func isTrue(p *v1.Pod, condition v1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == condition {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// initState returns the state of the first init container that has not completed or, for a
// sidecar, not started. It is empty once the pod is initialized: later a sidecar does not
// block the pod.
func initState(p *v1.Pod) string {
	if isTrue(p, v1.PodInitialized) {
		return ""
	}
	isSidecar := sidecars(p)
	for i, c := range p.Status.InitContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode == 0 && !isSidecar[c.Name] {
			continue
		}
		if isSidecar[c.Name] && c.State.Running != nil && c.Started != nil && *c.Started {
			continue
		}
		if s := containerState(c.State); s != "" && s != "PodInitializing" {
			return "Init:" + s
		}
		return fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
	}
	return ""
}

// containerState returns the reason of a waiting or terminated state; empty if running.
func containerState(s v1.ContainerState) string {
	switch {
	case s.Waiting != nil:
		return s.Waiting.Reason
	case s.Terminated != nil && s.Terminated.Reason != "":
		return s.Terminated.Reason
	case s.Terminated != nil && s.Terminated.Signal != 0:
		return fmt.Sprintf("Signal:%d", s.Terminated.Signal)
	case s.Terminated != nil:
		return fmt.Sprintf("ExitCode:%d", s.Terminated.ExitCode)
	}
	return ""
}
