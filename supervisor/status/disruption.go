package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Disruption is an end that the node put to a pod for its own sake: an
// eviction, a preemption, a shutdown. The pod shows Failed with this reason
// until it runs again.
type Disruption struct {
	// Reason is such as Evicted; Message is for people.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Cause is a word for whoever decides when the pod may run again, such as
	// the node's condition that has to pass. It may be empty.
	Cause string `json:"cause,omitempty"`
	// Signal is what was short, as metrics count it; it may be empty.
	Signal string `json:"signal,omitempty"`
	// At is when it was decided.
	At time.Time `json:"at"`
	// ClearLogs: what the pod printed goes before it runs again, since it took
	// too much of the disk.
	ClearLogs bool `json:"clearLogs,omitempty"`
}

// reasonTerminationByKubelet is that of the condition DisruptionTarget of a pod
// that its node ended, the API's.
const reasonTerminationByKubelet = v1.PodReasonTerminationByKubelet

// displaced is the condition that says so, nil for a pod that was not.
func displaced(d *Disruption) *v1.PodCondition {
	if d == nil {
		return nil
	}
	return &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
		Reason: reasonTerminationByKubelet, Message: d.Message,
	}
}

// ours reports whether Generate makes a condition anew. That a pod is the
// target of a disruption may be said by others too.
func ours(c *v1.PodCondition) bool {
	return generated[c.Type] || c.Type == v1.DisruptionTarget && c.Reason == reasonTerminationByKubelet
}
