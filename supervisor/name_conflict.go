package supervisor

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// nameConflict returns why a pod must wait for another pod of its full name, nil if
// there is none that runs: a pod of a stopped kubelet or of another daemon, or an
// orphan of this daemon that may not be terminated yet. Two of them could share a
// data directory.
func nameConflict(pod *v1.Pod, all *cri.Observed) *status.Cause {
	for _, other := range all.Own {
		if other.UID != pod.UID && other.Name == pod.Name && other.Namespace == pod.Namespace && other.Running() {
			return &status.Cause{Reason: reasonPredecessor, Message: fmt.Sprintf(
				"an earlier revision of the pod (UID %s) is still running; this one starts when it has terminated", other.UID)}
		}
	}
	for _, other := range all.Foreign {
		switch {
		case other.Name != pod.Name || other.Namespace != pod.Namespace:
		case other.Running():
			return &status.Cause{Reason: podworkers.ReasonNameTaken, Message: fmt.Sprintf(
				"pod %s is already running and does not belong to this podstead (UID %s); stop the program that manages it, then run: %s",
				other.FullName(), other.UID, stopCommand(other))}
		case other.UID == pod.UID && len(other.Sandboxes) > 0:
			// A pod of another podstead, from the same manifest. The runtime keeps
			// the names of a sandbox and its containers, which contain the UID,
			// until they are removed.
			return &status.Cause{Reason: podworkers.ReasonNameTaken, Message: fmt.Sprintf(
				"pod %s ran under another podstead (UID %s), and its sandboxes still have the name; remove them with: crictl rmp%s",
				other.FullName(), other.UID, sandboxIDs(other, false))}
		}
	}
	return nil
}

// stopCommand returns the command that stops a pod of another client.
func stopCommand(pod *cri.Pod) string {
	if ids := sandboxIDs(pod, true); ids != "" {
		return "crictl stopp" + ids
	}
	command := "crictl stop"
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.State == cri.StateRunning || c.State == cri.StateUnknown {
			command += " " + c.ID
		}
	}
	return command
}

// sandboxIDs returns the IDs of all sandboxes, or of the ready ones only, each
// after a space.
func sandboxIDs(pod *cri.Pod, ready bool) string {
	ids := ""
	for _, sandbox := range pod.Sandboxes {
		if sandbox.Ready || !ready {
			ids += " " + sandbox.ID
		}
	}
	return ids
}
