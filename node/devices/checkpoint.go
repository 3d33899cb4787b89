package devices

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/internal/statefile"
)

// checkpointVersion is the version of the file's form.
const checkpointVersion = 1

// checkpointFormat is the file of the checkpoint; an allocation takes less than a kilobyte. If it is lost, devices of
// containers that run can be given to others.
var checkpointFormat = statefile.Format[checkpoint]{
	Name: "devices.json", Version: checkpointVersion, Limit: 16 << 20, Damaged: statefile.Refuse, Newer: statefile.Refuse,
	Repeat: true, Sequence: func(c *checkpoint) uint64 { return c.Sequence },
}

// checkpoint is the form of the file.
type checkpoint struct {
	Version int `json:"version"`
	// Sequence is greater in a newer file.
	Sequence uint64 `json:"sequence"`
	// Resources are those that plugins have registered.
	Resources []v1.ResourceName `json:"resources,omitempty"`
	Pods      []checkpointPod   `json:"pods,omitempty"`
}

type checkpointPod struct {
	UID        types.UID             `json:"uid"`
	Name       string                `json:"name"`
	Containers []checkpointContainer `json:"containers"`
}

type checkpointContainer struct {
	Name     string            `json:"name"`
	Resource v1.ResourceName   `json:"resource"`
	Devices  []string          `json:"devices"`
	Assigned device.Assignment `json:"assigned"`
	PreStart bool              `json:"preStart,omitempty"`
}

// checkpointStore is the file of the checkpoint, which takes the manager's mutex while it writes, and the sequence of
// the last one, which that mutex guards.
type checkpointStore struct {
	file     *statefile.File[checkpoint]
	sequence uint64
}

// save writes the checkpoint, unless there never was anything in it.
func (m *Manager) save() error {
	if c := m.snapshot(); c.Sequence == 0 && len(c.Pods)+len(c.Resources) == 0 {
		return nil
	}
	err := m.store.file.SaveFrom(func() checkpoint {
		c := m.snapshot()
		c.Sequence++
		m.mu.Lock()
		defer m.mu.Unlock()
		m.store.sequence = c.Sequence
		return c
	})
	if err != nil {
		return fmt.Errorf("failed to save the checkpoint of device allocations: %w", err)
	}
	return nil
}

// saveLater lets Run write the checkpoint. That is for changes that may be lost: what is
// released too late is released by the next daemon.
func (m *Manager) saveLater() {
	m.saveRequested.Notify()
}

// saveRepeatedly writes the checkpoint, and again until it succeeds.
func (m *Manager) saveRepeatedly() {
	if err := m.save(); err != nil {
		m.log.Warn("Failed to save device allocations, retrying", "err", err)
	}
}

// snapshot returns the state as a checkpoint.
func (m *Manager) snapshot() checkpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := checkpoint{Version: checkpointVersion, Sequence: m.store.sequence}
	for _, name := range slices.Sorted(maps.Keys(m.resources)) {
		if m.resources[name].local == nil {
			c.Resources = append(c.Resources, name)
		}
	}
	for uid, p := range m.pods {
		if p.tentative && !p.responded {
			continue
		}
		saved := checkpointPod{UID: uid, Name: p.name}
		for container, resources := range p.containers {
			for name, a := range resources {
				saved.Containers = append(saved.Containers,
					checkpointContainer{Name: container, Resource: name, Devices: a.ids, Assigned: a.assigned, PreStart: a.preStart})
			}
		}
		slices.SortFunc(saved.Containers, func(a, b checkpointContainer) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Resource, b.Resource))
		})
		c.Pods = append(c.Pods, saved)
	}
	slices.SortFunc(c.Pods, func(a, b checkpointPod) int { return cmp.Compare(a.UID, b.UID) })
	return c
}

// restore sets the state to that of a checkpoint.
func (m *Manager) restore(c checkpoint) {
	m.store.sequence = c.Sequence
	for _, name := range c.Resources {
		m.resources[name] = &deviceResource{}
	}
	for _, saved := range c.Pods {
		p := &podDevices{name: saved.Name, containers: map[string]map[v1.ResourceName]*allocation{}}
		for _, a := range saved.Containers {
			p.set(a.Name, a.Resource, &allocation{ids: a.Devices, assigned: a.Assigned, preStart: a.PreStart})
		}
		m.pods[saved.UID] = p
	}
}
