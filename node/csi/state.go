package csi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/boundedfile"
)

const (
	stateVersion = 1
	// maxStateFile is the largest state that is read, in bytes.
	maxStateFile = 16 << 20
)

// state is what drivers have been asked to do and have not undone.
type state struct {
	Version int `json:"version"`
	// BootID is that of the boot in which the state was written. After another boot nothing is staged
	// or published any more.
	BootID  string    `json:"bootID"`
	Volumes []*record `json:"volumes"`
}

// record is one volume.
type record struct {
	Driver string `json:"driver"`
	Handle string `json:"handle"`
	// StagingPath is empty for a volume that was never to be staged. Staged is set after the driver has
	// staged it.
	StagingPath string `json:"stagingPath,omitempty"`
	Staged      bool   `json:"staged,omitempty"`
	// Stale: the volume was used in an earlier boot, and not since.
	Stale bool         `json:"stale,omitempty"`
	Pods  []*podRecord `json:"pods,omitempty"`
}

// podRecord is a pod that uses a volume.
type podRecord struct {
	UID    types.UID `json:"uid"`
	Name   string    `json:"name"`
	Target string    `json:"target"`
	// Called is set before the driver is called to publish the volume, and unset after it was
	// unpublished. Published is set after the volume is as the pod needs it.
	Called    bool `json:"called,omitempty"`
	Published bool `json:"published,omitempty"`
}

func (r *record) pod(uid types.UID, name string) *podRecord {
	for _, p := range r.Pods {
		if p.UID == uid && p.Name == name {
			return p
		}
	}
	return nil
}

// readState reads the state. A file that does not exist is an empty state.
func readState(path, boot string) (*state, error) {
	s := &state{Version: stateVersion, BootID: boot}
	data, err := boundedfile.Read(path, maxStateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var read state
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err == nil && read.Version != stateVersion {
		err = fmt.Errorf("version is %d, this daemon supports version %d", read.Version, stateVersion)
	}
	if err == nil && slices.ContainsFunc(read.Volumes, (*record).damaged) {
		err = errors.New("a volume has no driver, handle or path")
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read which CSI volumes are in use: %w; restore %s, or reboot the host after removing it, since what is mounted now would stay so", err, path)
	}
	if boot == "" || read.BootID != boot {
		for _, r := range read.Volumes {
			r.Staged, r.Stale = false, true
			for _, p := range r.Pods {
				p.Published = false
			}
		}
	}
	s.Volumes = read.Volumes
	return s, nil
}

func (r *record) damaged() bool {
	return r == nil || r.Driver == "" || r.Handle == "" ||
		slices.ContainsFunc(r.Pods, func(p *podRecord) bool { return p == nil || p.UID == "" || p.Target == "" })
}

// load reads the state once; the caller holds the mutex. A damaged file is an error until it is
// repaired.
func (m *Manager) load() error {
	if m.state != nil {
		return nil
	}
	s, err := readState(m.options.File, m.options.BootID)
	m.state = s
	return err
}

// update changes the state and writes it; without an error it is on the disk. The change stays in
// memory if it cannot be written: it is written with the next one.
func (m *Manager) update(change func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(); err != nil {
		return err
	}
	change()
	data, err := json.MarshalIndent(m.state, "", "\t")
	if err == nil {
		err = atomicfile.Replace(m.options.File, data)
	}
	if err != nil {
		return fmt.Errorf("failed to record the use of a CSI volume: %w", err)
	}
	return nil
}

// find returns the record of a volume, nil if there is none; the caller holds the mutex.
func (s *state) find(driver, handle string) *record {
	for _, r := range s.Volumes {
		if r.Driver == driver && r.Handle == handle {
			return r
		}
	}
	return nil
}
