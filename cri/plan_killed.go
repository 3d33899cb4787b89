package cri

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// KilledToRestart returns, by container name, the instances of regular containers that this
// request kills in order to restart them, and those of known that were killed and have no
// successor yet. The caller keeps them before it calls Sync, and passes them as Restarting from
// then on: the code with which an instance exits says nothing about its successor, and with
// OnFailure a clean exit would end the pod if the daemon or the runtime fails between the two.
// (The kubelet loses the container then.) It is nil for a pod whose containers restart always.
func (r *SyncRequest) KilledToRestart(known map[string]string) map[string]string {
	if r.Status == nil || r.Pod.DeletionTimestamp != nil || restartsAlways(r.Pod) {
		return nil
	}
	in := r.planInput()
	v, actions := newPlanner(in), Plan(in)
	starts := actions.Start
	if actions.CreateSandbox {
		starts = v.regularToStart() // also those that come after the init containers
	}
	var killed map[string]string
	for i := range r.Pod.Spec.Containers {
		name := r.Pod.Spec.Containers[i].Name
		last := v.last[name]
		switch {
		case last == nil:
			continue
		case last.State == StateExited && known[name] == last.ID:
		case last.State != StateExited && slices.Contains(starts, i) && actions.kills(last.ID):
		default:
			continue
		}
		if killed == nil {
			killed = map[string]string{}
		}
		killed[name] = last.ID
	}
	return killed
}

// restartsAlways reports whether no exit code keeps a container of a pod down.
func restartsAlways(pod *v1.Pod) bool {
	return pod.Spec.RestartPolicy == v1.RestartPolicyAlways && !slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool {
		return c.RestartPolicy != nil
	})
}

// kills reports whether an instance is among those to kill.
func (a *Actions) kills(id string) bool {
	return a.KillPod || slices.ContainsFunc(a.Kill, func(k Kill) bool { return k.ID == id })
}

// planInput returns the input of Plan for a request whose status is known.
func (r *SyncRequest) planInput() PlanInput {
	return PlanInput{
		Pod: r.Pod, Status: r.Status, FailedProbes: r.FailedProbes, ChangedObjects: r.ChangedObjects,
		Started: r.Started, Resizes: r.Resizes, Restarting: r.Restarting,
	}
}
