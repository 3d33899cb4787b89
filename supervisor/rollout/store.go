package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/unwritten"
	"github.com/podstead/podstead/manifest"
)

// storeVersion is the version of the files. A greater one is not read.
const storeVersion = 1

// stateFile is the name of a rollout's state in its directory. Next to it is a file for
// each revision of its history.
const stateFile = "state.json"

// maxFile bounds a file; a manifest has at most as much.
const maxFile = 16 << 20

// store keeps rollouts in a directory: NAMESPACE/NAME/state.json and
// NAMESPACE/NAME/REVISION.json. Only Run uses it.
type store struct {
	// dir is empty for a store that stores nothing.
	dir   string
	files *unwritten.Files
	log   *slog.Logger
	// disk is how the store changes files.
	disk disk
	// patience is how long it still waits for files that cannot be read at the moment.
	patience time.Duration
	// has are the files of revisions that exist, by path.
	has map[string]bool
}

// writeMode is when a write is on the disk.
type writeMode uint8

const (
	// later: written with those of other pods, in a moment.
	later writeMode = iota
	// now: the daemon's next start sees it, also after it was killed. A power cut leaves
	// the old or the new content.
	now
	// durably: on the disk, also after a power cut.
	durably
)

// storedRollout is the state of a rollout on the disk, one field for each fact that a file of
// another version may lack. Revisions are named by their short hashes.
type storedRollout struct {
	Version   int    `json:"version"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Source is that of the revision in effect.
	Source manifest.Source `json:"source"`
	State  State           `json:"state"`
	Since  time.Time       `json:"since"`
	// Manifest is the revision of the manifest.
	Manifest string            `json:"manifest"`
	Current  string            `json:"current"`
	Good     bool              `json:"good,omitempty"`
	LastGood string            `json:"lastGood,omitempty"`
	Pinned   string            `json:"pinned,omitempty"`
	Rejected *rejection        `json:"rejected,omitempty"`
	Images   map[string]string `json:"images,omitempty"`
	Previous map[string]string `json:"previous,omitempty"`
	Begun    *beginning        `json:"begun,omitempty"`
	History  history           `json:"revisions"`

	// until is when it is forgotten unless a source declares its pod; zero while its source
	// has not delivered. It is not stored.
	until time.Time
}

// storedRevision is a revision on the disk.
type storedRevision struct {
	Version     int               `json:"version"`
	ManifestUID types.UID         `json:"manifestUID"`
	Images      map[string]string `json:"images,omitempty"`
	Pod         *v1.Pod           `json:"pod"`
}

// path returns the directory of a pod.
func (s *store) path(fullName string) string { return filepath.Join(s.dir, fullName) }

// load reads all rollouts. One that is damaged or of a newer version is moved aside with
// a warning, one that the disk does not give stays until it is replaced: the newest manifest of
// its pod comes into effect then.
func (s *store) load() map[string]*storedRollout {
	found := map[string]*storedRollout{}
	s.has = map[string]bool{}
	if s.dir == "" {
		return found
	}
	for _, fullName := range s.names() {
		path := filepath.Join(s.path(fullName), stateFile)
		state, err := s.readState(path)
		switch {
		case err == nil:
			found[fullName] = state
		case isTemporary(err):
			s.log.Warn("State of a rollout cannot be read, the pod runs the newest revision of its manifest", "file", path,
				"err", err)
		case !errors.Is(err, fs.ErrNotExist):
			s.moveAside(path, err)
		case !s.hasAside(fullName):
			s.remove(fullName) // a daemon was killed before it had written, or removed, all of it
		}
	}
	s.removeEmpty()
	return found
}

// removeEmpty removes the directories of namespaces without a pod.
func (s *store) removeEmpty() {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return // there is no rollout yet, or names has reported it
	}
	for _, e := range entries {
		if e.IsDir() {
			_ = s.disk.Remove(filepath.Join(s.dir, e.Name())) // those with pods are not empty
		}
	}
}

// names returns the pods that have a directory, by full name.
func (s *store) names() (names []string) {
	// Relative to the directory, whose name may have characters of patterns.
	found, err := fs.Glob(os.DirFS(s.dir), "*/*")
	if err != nil {
		s.log.Warn("Failed to list rollouts", "directory", s.dir, "err", err)
	}
	for _, fullName := range found {
		if info, err := os.Lstat(s.path(fullName)); err == nil && info.IsDir() {
			names = append(names, fullName)
		}
	}
	return names
}

// hasAside reports whether a state of the pod was moved aside.
func (s *store) hasAside(fullName string) bool {
	for _, suffix := range []string{suffixDamaged, suffixNewer} {
		if _, err := os.Lstat(filepath.Join(s.path(fullName), stateFile+suffix)); err == nil {
			return true
		}
	}
	return false
}

// removeOthers removes everything of the pods that have no rollout.
func (s *store) removeOthers(has func(fullName string) bool) {
	if s.dir == "" {
		return
	}
	for _, fullName := range s.names() {
		if !has(fullName) {
			s.remove(fullName)
		}
	}
}

// The suffixes of states that were moved aside.
const (
	suffixDamaged = ".damaged"
	suffixNewer   = ".newer"
)

// readState reads and checks the state of a rollout.
func (s *store) readState(path string) (*storedRollout, error) {
	state := &storedRollout{}
	if err := s.readVersioned(path, state); err != nil {
		return nil, err
	}
	if want := filepath.Join(state.Namespace, state.Name, stateFile); !strings.HasSuffix(path,
		string(filepath.Separator)+want) {
		return nil, fmt.Errorf("it is of pod %s/%s", state.Namespace, state.Name)
	}
	if state.Current == "" {
		return nil, errors.New("it names no revision")
	}
	return state, nil
}

// errNewer is the error of a file of a newer version.
var errNewer = errors.New("it was written by a newer podstead")

const (
	// maxPatience is how long a start waits at most, in all, for files that cannot be read at the
	// moment. To forget a rollout starts a revision that failed.
	maxPatience = 2 * time.Second
	// readRetry is the time between two attempts to read a file.
	readRetry = 100 * time.Millisecond
)

// isTemporary reports whether the error of a read says nothing about the content of the file.
func isTemporary(err error) bool {
	for _, e := range []error{syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EINTR,
		syscall.EAGAIN, syscall.ETIMEDOUT, syscall.ESTALE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// read reads a file, several times if need be.
func (s *store) read(path string) ([]byte, error) {
	for {
		data, err := s.disk.Read(path)
		if err == nil || !isTemporary(err) || s.patience <= 0 {
			return data, err
		}
		s.patience -= readRetry
		time.Sleep(readRetry)
	}
}

// readVersioned decodes a file if its version is supported.
func (s *store) readVersioned(path string, into any) error {
	data, err := s.read(path)
	if err != nil {
		return err
	}
	var head struct {
		Version int `json:"version"`
	}
	switch err := json.Unmarshal(data, &head); {
	case err != nil:
		return err
	case head.Version > storeVersion:
		return fmt.Errorf("%w: its version is %d, the newest supported version is %d", errNewer, head.Version, storeVersion)
	case head.Version < 1:
		return fmt.Errorf("its version is %d", head.Version)
	}
	return json.Unmarshal(data, into)
}

// moveAside keeps a file that cannot be used, for inspection or for a return to the newer
// version.
func (s *store) moveAside(path string, reason error) {
	aside := path + suffixDamaged
	if errors.Is(reason, errNewer) {
		aside = path + suffixNewer
	}
	if err := s.disk.Rename(path, aside); err != nil {
		aside = "not moved: " + err.Error()
	}
	s.log.Warn("State of a rollout cannot be used, the pod runs the newest revision of its manifest", "file", path,
		"reason", reason, "movedTo", aside)
}

// revision reads a revision of a pod.
func (s *store) revision(fullName string, e entry) (*revision, error) {
	if s.dir == "" {
		return nil, fmt.Errorf("revision %s is not stored", e.Revision)
	}
	stored := storedRevision{}
	path := filepath.Join(s.path(fullName), e.Revision+".json")
	if err := s.readVersioned(path, &stored); err != nil {
		return nil, fmt.Errorf("revision %s cannot be read from %s: %w", e.Revision, path, err)
	}
	if stored.Pod == nil || stored.Pod.UID == "" || stored.Pod.Namespace+"/"+stored.Pod.Name != fullName ||
		revisionID(stored.Pod) != e.Revision {
		return nil, fmt.Errorf("revision %s cannot be read from %s: it is another pod", e.Revision, path)
	}
	return &revision{id: e.Revision, pod: stored.Pod, manifestUID: stored.ManifestUID, images: stored.Images}, nil
}

// write writes the state of a rollout and those of its revisions that are not written
// yet.
func (s *store) write(fullName string, state *storedRollout, revisions []*revision, mode writeMode) error {
	if s.dir == "" {
		return nil
	}
	dir := s.path(fullName)
	if err := s.disk.MkdirAll(dir); err != nil {
		return err
	}
	// A state that a power cut damages may be the only one that names the last good
	// revision. One that is the first of its pod has nothing to lose, so that the start of
	// many pods does not wait for the disk.
	_, err := os.Lstat(filepath.Join(dir, stateFile))
	sync := mode == durably || !errors.Is(err, fs.ErrNotExist)
	for _, r := range revisions {
		path := filepath.Join(dir, r.id+".json")
		if s.has[path] {
			continue
		}
		data, err := json.Marshal(storedRevision{Version: storeVersion, ManifestUID: r.manifestUID, Images: r.images,
			Pod: r.pod})
		if err == nil {
			err = replaceFile(s.disk, path, data, sync)
		}
		if err != nil {
			return err
		}
		s.has[path] = true
	}
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if err := replaceFile(s.disk, filepath.Join(dir, stateFile), data, sync); err != nil || mode != durably {
		return err
	}
	return s.disk.SyncPath(dir)
}

// trim removes the files of revisions that a history no longer has, except those of keep.
func (s *store) trim(fullName string, h history, keep []string) {
	if s.dir == "" {
		return
	}
	entries, err := os.ReadDir(s.path(fullName))
	if err != nil {
		return
	}
	for _, e := range entries {
		id, isRevision := strings.CutSuffix(e.Name(), ".json")
		if isRevision && e.Name() != stateFile && h.index(id) < 0 && !slices.Contains(keep, id) {
			path := filepath.Join(s.path(fullName), e.Name())
			_ = s.disk.Remove(path) // the next round tries it again
			delete(s.has, path)
		}
	}
}

// remove removes everything of a pod, the state first: what a killed daemon leaves of the
// rest is removed at the next start.
func (s *store) remove(fullName string) {
	if s.dir == "" {
		return
	}
	dir := s.path(fullName)
	for path := range s.has {
		if strings.HasPrefix(path, dir+string(filepath.Separator)) {
			delete(s.has, path)
		}
	}
	err := s.disk.Remove(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, s.disk.RemoveAll(dir))
	if err == nil {
		_ = s.disk.Remove(filepath.Dir(dir)) // the namespace's, if it is empty
		s.files.Report(filepath.Join(dir, stateFile), nil)
	} else {
		s.log.Warn("Failed to remove the rollout of a pod", "directory", dir, "err", err)
	}
}

// sync brings what was written of a pod to the disk.
func (s *store) sync(fullName string) {
	if s.dir == "" {
		return
	}
	dir := s.path(fullName)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, s.disk.SyncPath(filepath.Join(dir, e.Name())))
	}
	for _, path := range []string{dir, filepath.Dir(dir), s.dir} {
		err = errors.Join(err, s.disk.SyncPath(path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("Failed to sync the rollout of a pod", "directory", dir, "err", err)
	}
}
