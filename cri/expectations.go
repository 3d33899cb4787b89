package cri

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// made remembers the sandbox and the newest instance of each container that
// were made for a pod, so that a status which does not show them is noticed.
// The zero value is ready for use.
type expectations struct {
	mu   sync.Mutex
	pods map[types.UID]map[string]string // ID by container name; "" is the sandbox
}

func (m *expectations) expect(uid types.UID, name, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods == nil {
		m.pods = map[types.UID]map[string]string{}
	}
	if m.pods[uid] == nil || name == "" {
		m.pods[uid] = map[string]string{}
	}
	m.pods[uid][name] = id
}

// removed drops a container that was removed.
func (m *expectations) remove(uid types.UID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, known := range m.pods[uid] {
		if known == id {
			delete(m.pods[uid], name)
		}
	}
}

func (m *expectations) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

// shown reports whether a status shows all that was made.
func (m *expectations) metBy(uid types.UID, status *PodStatus) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range m.pods[uid] {
		if !statusContains(status, id) {
			return false
		}
	}
	return true
}

// settle takes a fresh status for the truth: what it does not show is gone.
func (m *expectations) prune(uid types.UID, status *PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, id := range m.pods[uid] {
		if !statusContains(status, id) {
			delete(m.pods[uid], name)
		}
	}
}

func statusContains(status *PodStatus, id string) bool {
	for i := range status.Containers {
		if status.Containers[i].ID == id {
			return true
		}
	}
	for i := range status.Sandboxes {
		if status.Sandboxes[i].ID == id {
			return true
		}
	}
	return false
}
