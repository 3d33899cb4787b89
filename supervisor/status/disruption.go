package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Disruption is the end of a pod for the sake of the node: an eviction, a preemption,
// a shutdown. The pod is Failed with this reason until it runs again.
type Disruption struct {
	// Reason is a reason such as Evicted; Message is for users.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Cause is for the RestartPolicy, such as the node condition that has to pass.
	// It may be empty.
	Cause string `json:"cause,omitempty"`
	// Signal is the resource signal, as metrics count it; it may be empty.
	Signal string `json:"signal,omitempty"`
	// At is the time of the decision.
	At time.Time `json:"at"`
	// ClearLogs: the logs are removed before the pod runs again, because they used
	// too much of the disk.
	ClearLogs bool `json:"clearLogs,omitempty"`
}

// reasonTerminationByKubelet is the API's reason of the condition DisruptionTarget for
// a pod that its node ended.
const reasonTerminationByKubelet = v1.PodReasonTerminationByKubelet

// disruptionCondition returns the condition DisruptionTarget, nil without a
// disruption.
func disruptionCondition(d *Disruption) *v1.PodCondition {
	if d == nil {
		return nil
	}
	return &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue,
		Reason: reasonTerminationByKubelet, Message: d.Message,
	}
}

// isGenerated reports whether Generate generates a condition. Other controllers may
// set DisruptionTarget too.
func isGenerated(c *v1.PodCondition) bool {
	return generated[c.Type] || c.Type == v1.DisruptionTarget && c.Reason == reasonTerminationByKubelet
}
