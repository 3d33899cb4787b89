package cri

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// expectations remembers the sandbox and the newest instance of each container
// that were created for a pod, to detect a status that does not contain them yet.
// The zero value is ready to use.
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

// remove drops a container or sandbox that was removed.
func (m *expectations) remove(uid types.UID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, expected := range m.pods[uid] {
		if expected == id {
			delete(m.pods[uid], name)
		}
	}
}

func (m *expectations) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

// metBy reports whether a status contains all that was created.
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

// prune drops what a fresh status does not contain: it no longer exists.
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
	return status.container(id) != nil || slices.ContainsFunc(status.Sandboxes, func(s Sandbox) bool { return s.ID == id })
}
