package podtable

import (
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Containers is how many containers of a pod are to run beside each other: the
// regular ones and the sidecars.
func Containers(p *v1.Pod) int {
	n := len(p.Spec.Containers)
	for i := range p.Spec.InitContainers {
		if podinfo.IsSidecar(&p.Spec.InitContainers[i]) {
			n++
		}
	}
	return n
}

// sidecars are the names of a pod's sidecars.
func sidecars(p *v1.Pod) map[string]bool {
	names := map[string]bool{}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; podinfo.IsSidecar(c) {
			names[c.Name] = true
		}
	}
	return names
}

// Tally counts those of Containers that are ready and all restarts, and tells
// when the last container ended, zero if none has.
func Tally(p *v1.Pod) (ready, restarts int, last time.Time) {
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			restarts += int(c.RestartCount)
			if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(last) {
				last = t.FinishedAt.Time
			}
		}
	}
	beside := sidecars(p)
	for _, c := range p.Status.InitContainerStatuses {
		if beside[c.Name] && c.Ready && c.State.Running != nil {
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

// Restarts is their number, and how long ago the last one was.
func Restarts(n int, last, now time.Time) string {
	if n == 0 || last.IsZero() {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d (%s ago)", n, duration.HumanDuration(now.Sub(last)))
}

// Age is how long ago the pod was started.
func Age(p *v1.Pod, now time.Time) string {
	if p.Status.StartTime == nil {
		return "<none>"
	}
	return duration.HumanDuration(now.Sub(p.Status.StartTime.Time))
}

// State is the one word of the STATUS column: the most telling reason,
// looked for in init containers first, then in the containers, then the phase.
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
		// kubectl shows the first container's, which may have done its work
		// where another one failed.
		return "Error"
	}
	return state
}

func readyCondition(p *v1.Pod) bool { return holds(p, v1.PodReady) }

func holds(p *v1.Pod, condition v1.PodConditionType) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == condition {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// initState tells of the first init container that has not done its part, of a
// pod that has not been initialized: what a sidecar does later holds nobody up.
func initState(p *v1.Pod) string {
	if holds(p, v1.PodInitialized) {
		return ""
	}
	beside := sidecars(p)
	for i, c := range p.Status.InitContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode == 0 && !beside[c.Name] {
			continue
		}
		if beside[c.Name] && c.State.Running != nil && c.Started != nil && *c.Started {
			continue
		}
		if s := containerState(c.State); s != "" && s != "PodInitializing" {
			return "Init:" + s
		}
		return fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
	}
	return ""
}

// containerState is the reason of a state that is not running; empty for one that is.
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

// Message is what holds the pod up or ended it, in words.
func Message(p *v1.Pod) string {
	if p.Status.Message != "" {
		return p.Status.Message
	}
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if m := containerMessage(&list[i]); m != "" {
				return m
			}
		}
	}
	return ""
}

// containerMessage is why a container does not run; empty for one that does,
// that is yet to start, or that has done its part.
func containerMessage(c *v1.ContainerStatus) string {
	if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
		return c.Name + " " + ending(t)
	}
	if c.State.Waiting == nil || c.State.Waiting.Message == "" {
		return ""
	}
	message := c.State.Waiting.Message
	if t := c.LastTerminationState.Terminated; t != nil {
		message += "; " + c.Name + " " + ending(t)
	}
	return message
}

// ending is how a container ended, with the last words it left, if any.
func ending(t *v1.ContainerStateTerminated) string {
	text := fmt.Sprintf("ended with code %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		text += " (" + t.Reason + ")"
	}
	if t.Message != "" {
		text += ": " + t.Message
	}
	return text
}
