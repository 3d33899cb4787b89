package podorder

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/supervisor/status"
)

// stopMargin is how much longer than its grace period the end of a pod may take
// before the pods that it depends on no longer wait for it: what follows its SIGKILL.
const stopMargin = 15 * time.Second

// DependentsCause is why a pod is not stopped yet: the named ones depend on it.
func DependentsCause(names []string) status.Cause {
	verb := "depends"
	if len(names) > 1 {
		verb = "depend"
	}
	return status.Cause{Reason: ReasonDependents,
		Message: "terminates after " + list(names, ", ") + ", which " + verb + " on it"}
}

// endingPod is a pod that is terminating and may run.
type endingPod struct {
	uid       types.UID
	name      string
	dependsOn []string
	// until is when it has ended, or if it waits itself has asked again and ended, at the
	// latest.
	until time.Time
}

// endBlock returns the pods, by name, for which one of those that are terminating has
// to wait, and when one of them is late. It is empty if the pod need not wait.
//
// A pod that depends on itself by way of others does not wait for those.
func endBlock(pod *endingPod, all []endingPod, now time.Time) (names []string, until time.Time) {
	before := reach(pod.name, all)
	for i := range all {
		other := &all[i]
		if other.uid == pod.uid || before[other.name] || !slices.Contains(other.dependsOn, pod.name) {
			continue
		}
		if !now.Before(other.until) {
			continue
		}
		if until.IsZero() || other.until.Before(until) {
			until = other.until
		}
		names = append(names, other.name)
	}
	return names, until
}

// reach returns the pods on which a pod depends, directly or by way of others that
// are terminating, and the pod itself.
func reach(name string, all []endingPod) map[string]bool {
	reached := map[string]bool{name: true}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		for i := range all {
			if all[i].name != queue[0] {
				continue
			}
			for _, next := range all[i].dependsOn {
				if !reached[next] {
					reached[next] = true
					queue = append(queue, next)
				}
			}
		}
	}
	return reached
}
