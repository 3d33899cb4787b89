package rollout

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// reasonTerminated is the reason of a pod that ended for a shutdown of the host.
const reasonTerminated = "Terminated"

// crashLoops is how often a container must have ended before a revision that never was
// Ready counts as crash-looping: the first crashes may be those of a client that is
// started before its server.
const crashLoops = 3

// wasGood reports whether a status shows that its revision works: it is Ready, or has
// succeeded.
func wasGood(st *v1.PodStatus) bool {
	return st.Phase == v1.PodSucceeded || slices.ContainsFunc(st.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// isWorthKeeping reports whether a pod should stay while its replacement is prepared.
// One that has ended is not, and one that never worked and of which nothing runs. One
// that worked stays, even if it is between two restarts: a replacement that cannot be
// prepared is no better. st is nil if the pod has no status yet.
func isWorthKeeping(st *v1.PodStatus, good bool) bool {
	switch {
	case st == nil:
		return true
	case podinfo.IsTerminal(st.Phase):
		return st.Reason == reasonTerminated // it restarts after the boot
	case good:
		return true
	}
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				return true
			}
		}
	}
	return false
}

// isDisrupted reports whether the node ends a pod for its own sake, or has ended it and does
// not let it run again yet.
func isDisrupted(st *v1.PodStatus) bool {
	return st.Phase == v1.PodFailed && st.Reason == reasonTerminated ||
		slices.ContainsFunc(st.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue
		})
}

// failureOf returns why a revision that was never Ready is a failure before its
// deadline; nil if it may still become Ready. before are the restarts of its containers
// when it came into effect.
func failureOf(st *v1.PodStatus, before int32) *status.Cause {
	if st.Phase == v1.PodFailed {
		return &status.Cause{Reason: ReasonFailed, Message: "the pod failed" + explained(st, "")}
	}
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			ended := c.RestartCount - before
			switch w := c.State.Waiting; {
			case w != nil && w.Reason == "CrashLoopBackOff":
				ended++
			case c.State.Running == nil: // it is not known yet whether it is started again
				continue
			}
			// A running one was not seen while it waited, as on a slow machine.
			if ended >= crashLoops && exitedBadly(&c.LastTerminationState) {
				return &status.Cause{Reason: ReasonCrashLoop,
					Message: fmt.Sprintf("container %q ended %d times%s", c.Name, ended, lastExit(c))}
			}
		}
	}
	return nil
}

// restartsOf returns the greatest restart count of a pod's containers.
func restartsOf(st *v1.PodStatus) int32 {
	n := int32(0)
	if st != nil {
		for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
			for i := range list {
				n = max(n, list[i].RestartCount)
			}
		}
	}
	return n
}

// lastExit reports how the last instance of a container ended, empty if that is not known.
func lastExit(c *v1.ContainerStatus) string {
	t := c.LastTerminationState.Terminated
	if t == nil {
		return ""
	}
	text := fmt.Sprintf(", the last time with exit code %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		text += " (" + t.Reason + ")"
	}
	return text
}

// reasonUnhealthy is the reason of the events of failed probes.
const reasonUnhealthy = "Unhealthy"

// lastProbeFailure returns how a probe of the revision in effect failed the last time, empty if none did.
func (c *Controller) lastProbeFailure(r *podRollout) string {
	if c.opts.LastEvent == nil {
		return ""
	}
	return strings.TrimSpace(c.opts.LastEvent(r.current.pod.UID, reasonUnhealthy))
}

// explained reports why a pod is not Ready, after a colon; empty if neither its status nor the failure
// of a probe does.
func explained(st *v1.PodStatus, probe string) string {
	if st == nil {
		return ""
	}
	if st.Reason != "" || st.Message != "" {
		return fmt.Sprintf(": %s", joined(st.Reason, st.Message))
	}
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			switch {
			case c.State.Waiting != nil && c.State.Waiting.Message != "":
				return fmt.Sprintf(": container %q: %s", c.Name, joined(c.State.Waiting.Reason, c.State.Waiting.Message))
			case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
				return fmt.Sprintf(": container %q exited with code %d", c.Name, c.State.Terminated.ExitCode)
			}
		}
	}
	if probe != "" {
		return ": " + probe
	}
	for i := range st.Conditions {
		if c := &st.Conditions[i]; c.Type == v1.PodReady && c.Status != v1.ConditionTrue && c.Message != "" {
			return ": " + c.Message
		}
	}
	return ""
}

// joined joins a reason and a message.
func joined(reason, message string) string {
	switch {
	case reason == "":
		return message
	case message == "":
		return reason
	}
	return reason + ": " + message
}
