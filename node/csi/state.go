package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
)

const stateVersion = 1

// stateFormat is the file of the state. If it is lost, volumes that are in use can be staged or published twice, and
// are never unpublished.
var stateFormat = statefile.Format[state]{
	Name: "csi-volumes.json", Version: stateVersion, Limit: 16 << 20, Damaged: statefile.Refuse, Newer: statefile.Refuse,
	Repeat: true, Encode: statefile.JSON[state]("\t", ""),
	Check: func(s *state) error {
		if slices.ContainsFunc(s.Volumes, (*record).damaged) {
			return errors.New("a volume has no driver, handle or path")
		}
		return nil
	},
}

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
func readState(file *statefile.File[state], boot string) (*state, error) {
	s := &state{Version: stateVersion, BootID: boot}
	read, err := file.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read which CSI volumes are in use: %w; restore %s, or reboot the host, after "+
			"which nothing is mounted and it is replaced", err, file.Path())
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
// repaired, or until nothing is mounted any more, as after a reboot. Nothing writes the file before.
func (m *Manager) load() error {
	if m.state != nil {
		return nil
	}
	s, err := readState(m.file, m.options.BootID)
	if err != nil && m.moveAside(err) {
		s, err = readState(m.file, m.options.BootID)
	}
	if m.state = s; err == nil {
		m.logUnknownMounts()
	}
	return err
}

// moveAside renames a damaged file if no volume of a driver is mounted, so that no volume depends on it. A file that
// cannot be read is not damaged.
func (m *Manager) moveAside(damage error) bool {
	mounted, err := m.mountedVolumes()
	if err != nil || len(mounted) > 0 || !m.file.MoveAside(damage) {
		return false
	}
	m.log.Error("Record of CSI volumes is damaged and was moved aside, since none is mounted", "file",
		statefile.MovedTo(damage), "err", damage)
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
	if err := m.file.SaveFrom(m.snapshot); err != nil {
		return fmt.Errorf("failed to record the use of a CSI volume: %w", err)
	}
	return nil
}

// snapshot returns a copy of what is written of the state. The other fields may change meanwhile.
func (m *Manager) snapshot() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := *m.state
	s.Volumes = slices.Clone(s.Volumes)
	for i, r := range s.Volumes {
		s.Volumes[i] = &record{
			Driver: r.Driver, Handle: r.Handle, StagingPath: r.StagingPath, Staged: r.Staged, Ephemeral: r.Ephemeral,
			Capacity: r.Capacity, Stale: r.Stale,
		}
		for _, p := range r.Pods {
			s.Volumes[i].Pods = append(s.Volumes[i].Pods,
				&podRecord{UID: p.UID, Name: p.Name, Target: p.Target, Called: p.Called, Published: p.Published})
		}
	}
	return s
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
