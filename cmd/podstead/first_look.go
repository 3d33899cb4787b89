package main

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// firstLook is how long the first answer about pods may wait for them.
const firstLook = 3 * time.Second

// afterFirstLook makes the first to ask for the pods wait until each has been
// looked at since the daemon started, or until it takes too long: who asks right
// after a restart is not told that what runs is pending. subscribe wakes after a
// status changed.
func afterFirstLook(pods func() []*v1.Pod, subscribe func() (<-chan struct{}, func())) func() []*v1.Pod {
	wait := sync.OnceFunc(func() {
		changed, end := subscribe()
		defer end()
		late := time.After(firstLook)
		for !lookedAt(pods()) {
			select {
			case <-changed:
			case <-late:
				return
			}
		}
	})
	return func() []*v1.Pod {
		wait()
		return pods()
	}
}

// lookedAt reports whether all have a status of this daemon's.
func lookedAt(pods []*v1.Pod) bool {
	for _, pod := range pods {
		if len(pod.Status.Conditions) == 0 {
			return false
		}
	}
	return true
}
