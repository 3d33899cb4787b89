package csi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

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
	// staged it, and unset before it is called to unstage it.
	StagingPath string `json:"stagingPath,omitempty"`
	Staged      bool   `json:"staged,omitempty"`
	// Ephemeral: the volume is declared in a pod. Earlier versions did not record it.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// Capacity is that to which the volume was last expanded on this node, or which it was known to have when
	// it was first published, in bytes; 0 is not known.
	Capacity int64 `json:"capacity,omitempty"`
	// expansion is the last one; nil if nothing is to be remembered of it.
	expansion *expansion
	// restage: the volume is to be staged again, because it could not be published. It is not stored: after a
	// restart the same happens again.
	restage bool
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
	// repeat fires when the driver is to be called again, and repeatAt is that time. They are not stored: after
	// a restart the driver is called at once.
	repeat   *time.Timer
	repeatAt time.Time
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
	var read state
	err := boundedfile.ReadJSON(path, maxStateFile, stateVersion, &read)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil && slices.ContainsFunc(read.Volumes, (*record).damaged) {
		err = errors.New("a volume has no driver, handle or path")
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read which CSI volumes are in use: %w; restore %s, or reboot the host, after which nothing is mounted and it is replaced", err, path)
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
// repaired, or until nothing is mounted any more, as after a reboot.
func (m *Manager) load() error {
	if m.state != nil {
		return nil
	}
	s, err := readState(m.options.File, m.options.BootID)
	if err != nil && m.moveAside(err) {
		s, err = readState(m.options.File, m.options.BootID)
	}
	if m.state = s; err == nil {
		m.logUnknownMounts()
	}
	return err
}

// suffixDamaged is appended to the name of a damaged file that is not used any more.
const suffixDamaged = ".damaged"

// moveAside renames a damaged file if no volume of a driver is mounted, so that no volume depends on it. A file that
// cannot be read is not damaged.
func (m *Manager) moveAside(damage error) bool {
	var failed syscall.Errno
	if errors.As(damage, &failed) {
		return false
	}
	mounted, err := m.mountedVolumes()
	if err != nil || len(mounted) > 0 {
		return false
	}
	if err := os.Rename(m.options.File, m.options.File+suffixDamaged); err != nil {
		return false
	}
	m.log.Error("Record of CSI volumes is damaged and was moved aside, since none is mounted", "file", m.options.File+suffixDamaged, "err", damage)
	return true
}

// mountedVolumes returns the paths at which volumes of drivers are mounted.
func (m *Manager) mountedVolumes() (paths []string, err error) {
	dir, err := filepath.EvalSymlinks(m.options.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was ever mounted there
	}
	if err != nil {
		return nil, err
	}
	points, err := m.options.Mounts()
	if err != nil {
		return nil, err
	}
	// The kernel reports paths without links.
	for _, name := range []string{"pods", "plugins"} {
		at, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, point := range points {
			if rest, below := strings.CutPrefix(point.Mountpoint, at+"/"); below && isVolumePath(name+"/"+rest) {
				paths = append(paths, filepath.Join(m.options.Dir, name, rest))
			}
		}
	}
	return paths, nil
}

// logUnknownMounts logs which volumes of drivers are mounted and not in the state, such as those of a
// kubelet: they are left alone.
func (m *Manager) logUnknownMounts() {
	mounted, err := m.mountedVolumes()
	if err != nil {
		m.log.Warn("Failed to compare CSI volumes with the mounts of the host", "err", err)
		return
	}
	known := map[string]bool{}
	for _, r := range m.state.Volumes {
		known[r.StagingPath] = true
		for _, p := range r.Pods {
			known[p.Target] = true
		}
	}
	for _, path := range mounted {
		if !known[path] {
			m.log.Warn("Volume of a CSI driver is mounted that podstead did not publish; it is left alone", "path", path)
		}
	}
}

// update changes the state and writes it. Without an error it is on the disk; else it is in memory, and
// written again later.
func (m *Manager) update(change func()) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	err := m.load()
	if err == nil {
		before := len(m.state.Volumes)
		if change(); len(m.state.Volumes) != before {
			m.subscribers.Notify()
		}
	}
	m.mu.Unlock()
	if err != nil {
		return err
	}
	err = m.write()
	m.options.Unwritten.Repeat(m.options.File, err, m.save)
	return err
}

// save writes the state.
func (m *Manager) save() error {
	m.saving.Lock()
	defer m.saving.Unlock()
	return m.write()
}

// write writes the state; the caller holds saving, so that an older state never replaces a newer one.
func (m *Manager) write() error {
	m.mu.Lock()
	data, err := json.MarshalIndent(m.state, "", "\t")
	m.mu.Unlock()
	if err == nil && bytes.Equal(data, m.written) {
		return nil
	}
	if err == nil {
		err = m.options.Write(m.options.File, data)
	}
	if err != nil {
		m.written = nil
		return fmt.Errorf("failed to record the use of a CSI volume: %w", err)
	}
	m.written = data
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
