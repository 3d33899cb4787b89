package csi

import (
	"cmp"
	"maps"
	"slices"

	"github.com/podstead/podstead/internal/csivolume"
)

// Drivers returns the registered drivers, sorted by name.
func (m *Manager) Drivers() []csivolume.NodeDriver {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]csivolume.NodeDriver, 0, len(m.drivers))
	for _, name := range slices.Sorted(maps.Keys(m.drivers)) {
		info := m.drivers[name].info
		all = append(all, csivolume.NodeDriver{Name: name, NodeID: info.nodeID, MaxVolumes: info.maxVolumes,
			Topology: info.topology, Expands: m.drivers[name].capabilities[capabilityExpand]})
	}
	return all
}

// InUse returns the volumes that are published or staged on this node, or about to be, sorted; not those that
// are declared in a pod. The error is why the record of volumes cannot be read.
func (m *Manager) InUse() (ids []csivolume.ID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(); err != nil {
		return nil, err
	}
	for _, r := range m.state.Volumes {
		if !r.Ephemeral {
			ids = append(ids, csivolume.ID{Driver: r.Driver, Handle: r.Handle})
		}
	}
	slices.SortFunc(ids, func(a, b csivolume.ID) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Handle, b.Handle))
	})
	return ids, nil
}

// Subscribe notifies after the drivers or the volumes in use have changed, until the function is called.
func (m *Manager) Subscribe() (<-chan struct{}, func()) {
	return m.subscribers.Subscribe()
}
