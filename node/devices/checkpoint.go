package devices

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/device"
)

// checkpointVersion is the version of the file's form.
const checkpointVersion = 1

// maxCheckpoint limits the file, in bytes. An allocation takes less than a kilobyte.
const maxCheckpoint = 16 << 20

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

// checkpointStore writes the checkpoint twice, one file after the other: if one of them
// cannot be read, the other one has the same allocations, or those before the last change.
type checkpointStore struct {
	file string

	mu       sync.Mutex
	sequence uint64
}

func (s *checkpointStore) files() []string { return []string{s.file, s.file + ".backup"} }

// load returns the newest checkpoint that can be read, the zero one if there is none. With an
// error there may have been a newer one.
func (s *checkpointStore) load() (newest checkpoint, err error) {
	var faults []error
	for _, file := range s.files() {
		c, err := readCheckpoint(file)
		if err != nil {
			faults = append(faults, err)
		}
		if c.Sequence > newest.Sequence {
			newest = c
		}
	}
	s.sequence = newest.Sequence
	if newest.Sequence > 0 {
		// The first file is written first, so that the backup is never newer than it.
		return newest, nil
	}
	return newest, errors.Join(faults...)
}

func readCheckpoint(file string) (c checkpoint, err error) {
	switch err = boundedfile.ReadJSON(file, maxCheckpoint, checkpointVersion, &c); {
	case errors.Is(err, fs.ErrNotExist):
		return checkpoint{}, nil
	case err != nil:
		return checkpoint{}, err
	}
	return c, nil
}

// save writes what snapshot returns. It is called with the lock of the store held, so that the
// newest snapshot is written last.
func (s *checkpointStore) save(snapshot func() checkpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := snapshot()
	if s.sequence == 0 && len(c.Pods)+len(c.Resources) == 0 {
		return nil
	}
	s.sequence++
	c.Version, c.Sequence = checkpointVersion, s.sequence
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	for _, file := range s.files() {
		if err := atomicfile.Replace(file, data); err != nil {
			return fmt.Errorf("failed to save the checkpoint of device allocations: %w", err)
		}
	}
	return nil
}

// save writes the checkpoint.
func (m *Manager) save() error {
	if m.options.Checkpoint == "" {
		return nil
	}
	return m.store.save(m.snapshot)
}

// saveLater lets Run write the checkpoint. That is for changes that may be lost: what is
// released too late is released by the next daemon.
func (m *Manager) saveLater() {
	m.saveRequested.Notify()
}

// saveRepeatedly writes the checkpoint, and again until it succeeds.
func (m *Manager) saveRepeatedly() {
	if err := m.options.Unwritten.Write(m.options.Checkpoint, m.save); err != nil {
		m.log.Warn("Failed to save device allocations, retrying", "err", err)
	}
}

// snapshot returns the state as a checkpoint.
func (m *Manager) snapshot() checkpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := checkpoint{}
	for _, name := range slices.Sorted(maps.Keys(m.resources)) {
		if m.resources[name].local == nil {
			c.Resources = append(c.Resources, name)
		}
	}
	for uid, p := range m.pods {
		if p.tentative && !p.answered {
			continue
		}
		saved := checkpointPod{UID: uid, Name: p.name}
		for container, resources := range p.containers {
			for name, a := range resources {
				saved.Containers = append(saved.Containers, checkpointContainer{Name: container, Resource: name, Devices: a.ids, Assigned: a.assigned, PreStart: a.preStart})
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
