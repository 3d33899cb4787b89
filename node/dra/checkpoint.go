package dra

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
)

// checkpointVersion is the version of the file's form.
const checkpointVersion = 1

// checkpointFormat is the file of the checkpoint; a claim takes less than a kilobyte for each device. If it is lost,
// drivers are never asked to undo what they have prepared for pods that have ended. Nothing is given twice: the API
// server allocates devices, and to prepare a claim again changes nothing.
var checkpointFormat = statefile.Format[checkpoint]{
	Name: "resource-claims.json", Version: checkpointVersion, Limit: 16 << 20, Damaged: statefile.MoveAside,
	Newer:  statefile.Refuse,
	Repeat: true, Sequence: func(c *checkpoint) uint64 { return c.Sequence },
}

// checkpoint is the form of the file.
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

// save writes the state, unless there never was anything in it.
func (m *Manager) save() error {
	if c := m.snapshot(); c.Sequence == 0 && len(c.Claims) == 0 {
		return nil
	}
	err := m.file.SaveFrom(func() checkpoint {
		c := m.snapshot()
		c.Sequence++
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sequence = c.Sequence
		return c
	})
	if err != nil {
		return fmt.Errorf("failed to save the checkpoint of prepared resource claims: %w", err)
	}
	return nil
}

func (m *Manager) snapshot() checkpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := checkpoint{Version: checkpointVersion, Sequence: m.sequence}
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
