package pod

import v1 "k8s.io/api/core/v1"

// CriticalPriority is the lowest priority of a critical pod: the value of the
// priority class system-cluster-critical.
const CriticalPriority int32 = 2_000_000_000

// NodeCriticalPriority is the value of the priority class system-node-critical.
const NodeCriticalPriority int32 = 2_000_001_000

// Priority returns spec.priority, 0 if it is not set. The priority class must
// be resolved already.
func Priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// IsCritical reports whether a pod has the priority of one of the system's two
// classes. Such a pod is never evicted, and may preempt others.
func IsCritical(pod *v1.Pod) bool { return Priority(pod) >= CriticalPriority }
