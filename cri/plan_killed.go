package cri

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// KilledInstance is an instance that is killed to be restarted.
type KilledInstance struct {
	ID string `json:"id"`
	// Until is when the kill is over at the latest, by the wall clock as the runtime's
	// times are. An instance that ended later was not killed, and ended by itself.
	Until time.Time `json:"until"`
}

// killMargin is how much longer than the grace period a kill may take: the least time after
// the signal, and the call that stops the container. (A runtime that is slower than that ends
// the container as if it had ended by itself.)
const killMargin = minGrace*time.Second + DefaultRequestTimeout

// Restarting returns, by container name, the IDs of those killed instances that did not
// outlive their kill. Nothing is known of an instance that was not observed.
func Restarting(killed map[string]KilledInstance, observed *PodStatus) map[string]string {
	var ids map[string]string
	for name, k := range killed {
		if observed != nil {
			if c := observed.container(k.ID); c != nil && k.outlivedBy(c) {
				continue
			}
		}
		if ids == nil {
			ids = map[string]string{}
		}
		ids[name] = k.ID
	}
	return ids
}

// outlivedBy reports whether an instance ended after its kill was over.
func (k *KilledInstance) outlivedBy(c *Container) bool {
	return c.State == StateExited && c.FinishedAt.After(k.Until)
}

// KilledToRestart returns, by container name, the instances of regular containers that this
// request kills in order to restart them, and those of known that were killed and have no
// successor yet. The caller keeps them before it calls Sync, and passes them as Restarting from
// then on: the code with which an instance exits reports nothing about its successor, and with
// OnFailure a clean exit would end the pod if the daemon or the runtime fails between the two.
// (The kubelet loses the container then.) It is nil for a pod whose containers restart always.
func (r *SyncRequest) KilledToRestart(known map[string]KilledInstance) map[string]KilledInstance {
	if r.Status == nil || r.Pod.DeletionTimestamp != nil || restartsAlways(r.Pod) {
		return nil
	}
	in := r.planInput()
	v, actions := newPlanner(in), Plan(in)
	starts := actions.Start
	if actions.CreateSandbox {
		starts = v.regularToStart() // also those that come after the init containers
	}
	var killed map[string]KilledInstance
	for i := range r.Pod.Spec.Containers {
		spec := &r.Pod.Spec.Containers[i]
		last := v.last[spec.Name]
		if last == nil {
			continue
		}
		k, before := known[spec.Name]
		before = before && k.ID == last.ID
		switch {
		case last.State == StateExited && before && !k.outlivedBy(last):
		case last.State == StateUnknown && neverRestarts(r.Pod, spec):
			// It starts only as long as it is unknown how it ended.
			continue
		case last.State != StateExited && slices.Contains(starts, i) && actions.kills(last.ID):
			k = KilledInstance{last.ID, time.Now().UTC().Round(0).Add(seconds(actions.graceOf(last.ID, r.grace())) + killMargin)}
		default:
			continue
		}
		if killed == nil {
			killed = map[string]KilledInstance{}
		}
		killed[spec.Name] = k
	}
	return killed
}

// restartsAlways reports whether no exit code keeps a container of a pod down.
func restartsAlways(pod *v1.Pod) bool {
	return pod.Spec.RestartPolicy == v1.RestartPolicyAlways &&
		!slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool {
			return c.RestartPolicy != nil
		})
}

// kills reports whether an instance is among those to kill.
func (a *Actions) kills(id string) bool {
	return a.KillPod || slices.ContainsFunc(a.Kill, func(k Kill) bool { return k.ID == id })
}

// graceOf returns the grace period in seconds with which an instance is killed.
func (a *Actions) graceOf(id string, ofPod int64) int64 {
	for i := range a.Kill {
		if k := &a.Kill[i]; k.ID == id && k.Grace != nil {
			return *k.Grace
		}
	}
	return ofPod
}

// planInput returns the input of Plan for a request whose status is known.
func (r *SyncRequest) planInput() PlanInput {
	return PlanInput{
		Pod: r.Pod, Status: r.Status, FailedProbes: r.FailedProbes, ChangedObjects: r.ChangedObjects,
		Started: r.Started, Resizes: r.Resizes, Restarting: r.Restarting, Ran: r.Ran,
	}
}
