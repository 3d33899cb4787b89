package podtable

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Terminating reports what a pod that terminates waits for: what failed, the end of its grace period, or that
// it lasts longer. It is empty for other pods.
func Terminating(p *v1.Pod, now time.Time) string {
	switch {
	case p.DeletionTimestamp == nil:
		return ""
	case p.Status.Message != "" || p.DeletionGracePeriodSeconds == nil:
		return p.Status.Message
	}
	grace := time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
	end := p.DeletionTimestamp.Time // of a pod of an API server: when its grace period ends
	if podinfo.PolicyOf(p).Static {
		end = end.Add(grace)
	}
	if left := end.Sub(now); left > 0 {
		return "its grace period of " + duration.HumanDuration(grace) + " ends in " + duration.HumanDuration(left)
	}
	return "it has not stopped since its grace period of " + duration.HumanDuration(grace) + " ended " +
		duration.HumanDuration(now.Sub(end)) + " ago"
}
