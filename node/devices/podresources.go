package devices

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Allocated returns the IDs of the devices of a pod, by container and resource.
func (m *Manager) Allocated(uid types.UID) map[string]map[v1.ResourceName][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil || p.tentative {
		return nil
	}
	all := map[string]map[v1.ResourceName][]string{}
	for container, resources := range p.containers {
		all[container] = map[v1.ResourceName][]string{}
		for name, a := range resources {
			all[container][name] = slices.Clone(a.ids)
		}
	}
	return all
}

// Allocatable returns the IDs of all healthy devices, by resource.
func (m *Manager) Allocatable() map[v1.ResourceName][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[v1.ResourceName][]string{}
	for name, r := range m.resources {
		if !r.isListed() {
			continue
		}
		for id, healthy := range r.devices {
			if healthy {
				all[name] = append(all[name], id)
			}
		}
	}
	return all
}
