package supervisor

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// firstStatusTimeout limits how long the first reader of SyncedPods waits.
const firstStatusTimeout = 3 * time.Second

// SyncedPods is Pods for clients of the API. The first call after the daemon's
// start waits until each pod has a status of this daemon, or for 3 seconds: a
// client that asks right after a restart must not see running pods as Pending.
func (s *Supervisor) SyncedPods() []*v1.Pod {
	s.firstStatus.await(s.Pods, s.cfg.Store.Statuses.Subscribe)
	return s.Pods()
}

// firstStatus makes callers wait once for the first status of all pods.
type firstStatus struct{ once sync.Once }

// await returns when all pods have a status, or after firstStatusTimeout. Later
// calls return at once. subscribe notifies after a status changed.
func (f *firstStatus) await(pods func() []*v1.Pod, subscribe func() (<-chan struct{}, func())) {
	f.once.Do(func() {
		changed, unsubscribe := subscribe()
		defer unsubscribe()
		timeout := time.After(firstStatusTimeout)
		for !allHaveStatus(pods()) {
			select {
			case <-changed:
			case <-timeout:
				return
			}
		}
	})
}

func allHaveStatus(pods []*v1.Pod) bool {
	for _, pod := range pods {
		if len(pod.Status.Conditions) == 0 {
			return false
		}
	}
	return true
}
