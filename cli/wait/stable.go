package wait

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/objects"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// stableTime is how long a container without a readiness probe must run: one that fails at once
// makes its pod ready for a moment.
const stableTime = 3 * time.Second

// unstable returns the container of a ready pod that has not run for stableTime yet; empty if there is
// none.
func unstable(p *v1.Pod) string {
	starts := map[string]time.Time{}
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if running := list[i].State.Running; running != nil {
				starts[list[i].Name] = running.StartedAt.Time
			}
		}
	}
	for c := range podinfo.EachContainer(&p.Spec, podinfo.SpecContainers) {
		if start := starts[c.Name]; c.ReadinessProbe == nil && !start.IsZero() && time.Since(start) < stableTime {
			return c.Name
		}
	}
	return ""
}

// hasStableRevision is hasRevision for a pod whose containers have run for stableTime, if they have no
// readiness probe.
func hasStableRevision(hash string) Condition {
	is := hasRevision(hash)
	return func(o *objects.Object) (bool, string, error) {
		met, state, err := is(o)
		if !met || err != nil {
			return met, state, err
		}
		p, err := objects.DecodePod(o)
		if err != nil {
			return false, "", err
		}
		if name := unstable(p); name != "" {
			return false, fmt.Sprintf("ready, waiting until container %s has run for %s", name, stableTime), nil
		}
		return true, "", nil
	}
}
