package imagearchives

import (
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/podstead/podstead/internal/statefile"
)

// stateVersion is the version of the file's format.
const stateVersion = 1

// stateFormat is the file; an archive takes some hundred bytes.
var stateFormat = statefile.Format[savedState]{
	Name: "image-archives.json", Version: stateVersion, Limit: 64 << 20, Damaged: statefile.MoveAside,
	Newer:      statefile.MoveAside,
	Durability: statefile.Atomic, Repeat: true,
}

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
func loadState(from *statefile.File[savedState]) ([]*file, error) {
	saved, err := from.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
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
	return files, err
}

// save writes the file. An error is logged and the write repeated.
func (d *Directory) save() {
	if err := d.state.SaveFrom(d.snapshot); err != nil {
		d.cfg.Log.Warn("Failed to record which image archives were loaded, retrying", "file", d.cfg.File, "err", err)
	}
}

func (d *Directory) snapshot() savedState {
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
	return saved
}
