package dra

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/boundedfile"
)

// checkpointVersion is the version of the file's form.
const checkpointVersion = 1

// maxCheckpoint limits the file, in bytes. A claim takes less than a kilobyte for each device.
const maxCheckpoint = 16 << 20

// checkpoint is the form of the file. It is written twice, one file after the other: if one of them
// cannot be read, the other one has the same claims, or those before the last change.
type checkpoint struct {
	Version int `json:"version"`
	// Sequence is greater in a newer file.
	Sequence uint64       `json:"sequence"`
	Claims   []savedClaim `json:"claims,omitempty"`
}

// savedClaim is a claim that drivers have prepared or that they were asked to prepare.
type savedClaim struct {
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	UID       types.UID   `json:"uid"`
	Drivers   []string    `json:"drivers,omitempty"`
	Pods      []types.UID `json:"pods"`
	Devices   []device    `json:"devices,omitempty"`
}

// device is a device of a claim as its driver prepared it.
type device struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
	Share  string `json:"share,omitempty"`
	// Requests are those of the claim that the device is for; none is all.
	Requests []string `json:"requests,omitempty"`
	CDI      []string `json:"cdi,omitempty"`
}

func (m *Manager) files() []string {
	return []string{m.options.Checkpoint, m.options.Checkpoint + ".backup"}
}

// load returns the newest checkpoint that can be read, the zero one if there is none. With an error
// there may have been a newer one.
func (m *Manager) load() (newest checkpoint, err error) {
	var faults []error
	for _, file := range m.files() {
		var c checkpoint
		switch err := boundedfile.ReadJSON(file, maxCheckpoint, checkpointVersion, &c); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			faults = append(faults, err)
		case c.Sequence > newest.Sequence:
			newest = c
		}
	}
	if newest.Sequence > 0 {
		// The first file is written first, so that the backup is never newer than it.
		return newest, nil
	}
	return newest, errors.Join(faults...)
}

// save writes the state. Several at once write the newest state last.
func (m *Manager) save() error {
	if m.options.Checkpoint == "" {
		return nil
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	c := m.snapshot()
	if m.sequence == 0 && len(c.Claims) == 0 {
		return nil
	}
	m.sequence++
	c.Version, c.Sequence = checkpointVersion, m.sequence
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	for _, file := range m.files() {
		if err := atomicfile.Replace(file, data); err != nil {
			return fmt.Errorf("failed to save the checkpoint of prepared resource claims: %w", err)
		}
	}
	return nil
}

func (m *Manager) snapshot() (c checkpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, known := range m.claims {
		c.Claims = append(c.Claims, savedClaim{
			Namespace: known.key.Namespace, Name: known.key.Name, UID: known.uid, Drivers: known.drivers,
			Pods: slices.Sorted(maps.Keys(known.pods)), Devices: slices.Clone(known.devices),
		})
	}
	slices.SortFunc(c.Claims, func(a, b savedClaim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return c
}

// restore sets the state to that of a checkpoint. As at the kubelet no claim counts as prepared: the
// host may have been restarted, and to prepare a claim again changes nothing.
func (m *Manager) restore(c checkpoint) {
	m.sequence = c.Sequence
	for _, saved := range c.Claims {
		if len(saved.Pods) == 0 {
			continue
		}
		known := newClaim(types.NamespacedName{Namespace: saved.Namespace, Name: saved.Name}, saved.UID, saved.Drivers)
		known.devices = saved.Devices
		for _, uid := range saved.Pods {
			known.pods[uid] = true
		}
		m.claims[known.key] = known
	}
}
