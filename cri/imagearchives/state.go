package imagearchives

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/boundedfile"
)

const (
	// stateVersion is the version of the file's format.
	stateVersion = 1
	// maxState limits the file in bytes; an archive takes some hundred.
	maxState = 64 << 20
)

// savedState is the content of the file that remembers what was loaded.
type savedState struct {
	Version int         `json:"version"`
	Files   []savedFile `json:"files"`
}

// savedFile is an archive of which at least one image was loaded.
type savedFile struct {
	Name string `json:"name"`
	identity
	SHA256 string                  `json:"sha256"`
	Images map[string]imageDigests `json:"images"`
	// Loaded are the names that were loaded from it.
	Loaded []string `json:"loaded"`
}

// loadState reads the file; none is no error.
func loadState(path string) ([]*file, error) {
	data, err := boundedfile.Read(path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var saved savedState
	if err := json.Unmarshal(data, &saved); err != nil {
		return nil, err
	}
	if saved.Version != stateVersion {
		return nil, fmt.Errorf("it has version %d, not %d", saved.Version, stateVersion)
	}
	var files []*file
	for _, s := range saved.Files {
		f := &file{
			name: s.Name, id: s.identity, state: Waiting, wasRead: true, digest: s.SHA256, images: s.Images,
			names: slices.Sorted(maps.Keys(s.Images)), loaded: map[string]bool{},
		}
		for _, name := range s.Loaded {
			f.loaded[name] = true
		}
		files = append(files, f)
	}
	return files, nil
}

// save writes the file. An error is logged and the write repeated.
func (d *Directory) save() {
	write := func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		saved := savedState{Version: stateVersion, Files: []savedFile{}}
		for _, name := range slices.Sorted(maps.Keys(d.files)) {
			if f := d.files[name]; f.wasRead && len(f.loaded) > 0 {
				saved.Files = append(saved.Files, savedFile{
					Name: name, identity: f.id, SHA256: f.digest, Images: f.images, Loaded: slices.Sorted(maps.Keys(f.loaded)),
				})
			}
		}
		data, err := json.Marshal(saved)
		if err != nil {
			return err
		}
		return atomicfile.Replace(d.cfg.File, data)
	}
	if err := d.cfg.Unwritten.Write(d.cfg.File, write); err != nil {
		d.cfg.Log.Warn("Failed to record which image archives were loaded, retrying", "file", d.cfg.File, "err", err)
	}
}
