package supervisor

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/pleg"
)

// podCgroups creates and removes the cgroups of pods.
type podCgroups struct {
	cgroups  Cgroups
	observer *pleg.PLEG
	ended    *endedPods
}

// lateCgroups is how long after a pod's end the runtime may create its cgroup again:
// a little more than the longest deadline of a call that does so.
const lateCgroups = 5 * time.Minute

// endedPods are the pods whose cgroups were removed in the last lateCgroups. Only
// those are looked for while the daemon runs: the cgroup of any other pod without a
// sandbox may be that of another daemon with the same root, which is about to start
// it.
type endedPods struct {
	mu   sync.Mutex
	pods map[types.UID]time.Time
}

func (e *endedPods) note(uid types.UID, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pods == nil {
		e.pods = map[types.UID]time.Time{}
	}
	e.pods[uid] = now
}

// recent returns the pods that ended in the last lateCgroups, and forgets older ones.
func (e *endedPods) recent(now time.Time) map[types.UID]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	recent := map[types.UID]bool{}
	for uid, at := range e.pods {
		if now.Sub(at) > lateCgroups {
			delete(e.pods, uid)
			continue
		}
		recent[uid] = true
	}
	return recent
}

// ensure creates the pod's cgroup, or updates it, and returns it for a new sandbox.
func (s podCgroups) ensure(ctx context.Context, pod *v1.Pod, observed *cri.PodStatus) (parent string, err error) {
	parent, err = s.cgroups.Ensure(ctx, pod, observed.CgroupParent())
	if err != nil {
		return parent, fmt.Errorf("unable to ensure pod container exists: %w", err)
	}
	return parent, nil
}

// destroy kills what is left in a pod's cgroup, whatever the runtime reports of the
// pod, and removes the cgroup.
func (s podCgroups) destroy(ctx context.Context, uid types.UID) error {
	parent := ""
	for _, pod := range s.observer.Observed().Own {
		if pod.UID == uid && len(pod.Sandboxes) > 0 {
			parent = pod.Sandboxes[0].CgroupParent()
		}
	}
	if err := s.cgroups.Destroy(ctx, uid, parent); err != nil {
		return fmt.Errorf("pod cgroup: %w", err)
	}
	return nil
}
