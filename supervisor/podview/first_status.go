package podview

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// firstStatusTimeout limits how long the first reader of the pods waits.
const firstStatusTimeout = 3 * time.Second

// FirstStatus makes callers wait once for the first status of all pods.
type FirstStatus struct{ once sync.Once }

// Await returns when the pods are complete and all of them have a status, or after
// firstStatusTimeout. Later calls return at once. subscribe notifies after that may have
// changed.
func (f *FirstStatus) Await(complete func() bool, pods func() []*v1.Pod, subscribe func() (<-chan struct{}, func())) {
	f.once.Do(func() {
		changed, unsubscribe := subscribe()
		defer unsubscribe()
		timeout := time.After(firstStatusTimeout)
		for !complete() || !allHaveStatus(pods()) {
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
		if len(pod.Status.Conditions) == 0 && pod.DeletionTimestamp == nil {
			return false
		}
	}
	return true
}
