package csi

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// notify signals the channel of Changed; the caller holds the mutex.
func (m *Manager) notify() {
	if len(m.ready) > 0 {
		m.changed.Notify()
	}
}

// readyAfter lets a pod be synced after a time.
func (m *Manager) readyAfter(uid types.UID, after time.Duration) *time.Timer {
	return time.AfterFunc(after, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ready[uid] = true
		m.notify()
	})
}

// Changed receives after a driver has registered for which pods wait, and when a volume is to be published or
// expanded again; TakeChanged returns the pods.
func (m *Manager) Changed() <-chan struct{} { return m.changed.C() }

// TakeChanged returns the pods that are to be synced since the last call.
func (m *Manager) TakeChanged() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	uids := slices.Collect(maps.Keys(m.ready))
	clear(m.ready)
	return uids
}

// await notes that a pod is to be synced when a driver registers. If it is registered now, the pod is
// synced again in any case.
func (m *Manager) await(driver string, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[driver] == nil {
		m.waiting[driver] = map[types.UID]bool{}
	}
	m.waiting[driver][uid] = true
}

// stopWaiting ends what await noted of a pod.
func (m *Manager) stopWaiting(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ready, uid)
	for driver, pods := range m.waiting {
		delete(pods, uid)
		if len(pods) == 0 {
			delete(m.waiting, driver)
		}
	}
}
