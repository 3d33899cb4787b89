package rollout

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/manifest"
)

// storeVersion is the version of the files.
const storeVersion = 1

// stateName is the name of a rollout's state in its directory, and stateFile that of its file. Next to it is a file for
// each revision of its history.
const (
	stateName = "state"
	stateFile = stateName + ".json"
)

// maxFile bounds a file; a manifest has at most as much.
const maxFile = 16 << 20

// stateFormat is the file of a rollout's state. Without it the newest revision of the manifest comes into effect.
var stateFormat = statefile.Format[storedRollout]{
	Name: "rollouts/NAMESPACE/NAME/state.json", Version: storeVersion, Limit: maxFile, Damaged: statefile.MoveAside,
	Newer: statefile.MoveAside, DirMode: 0o700, Durability: statefile.Atomic,
}

// revisionFormat is the file of a revision.
var revisionFormat = statefile.Format[storedRevision]{
	Name: "rollouts/NAMESPACE/NAME/REVISION.json", Version: storeVersion, Limit: maxFile, Damaged: statefile.MoveAside,
	Newer: statefile.MoveAside, DirMode: 0o700, Durability: statefile.Atomic,
}

// store keeps rollouts in a directory: NAMESPACE/NAME/state.json and
// NAMESPACE/NAME/REVISION.json. Only Run uses it.
type store struct {
	// dir is empty for a store that stores nothing.
	dir  string
	disk statefile.Disk
	log  *slog.Logger
	// patience is how long it still waits for files that cannot be read at the moment.
	patience time.Duration
	// pods are the files of pods, by full name.
	pods map[string]*podFiles
}

// podFiles are the files of a pod.
type podFiles struct {
	state     *statefile.File[storedRollout]
	revisions *statefile.Dir[storedRevision]
}

// newStore returns a store in a directory. It touches nothing.
func newStore(dir string, disk statefile.Disk, log *slog.Logger) *store {
	return &store{dir: dir, disk: disk, log: log, patience: maxPatience, pods: map[string]*podFiles{}}
}

// filesOf returns the files of a pod.
func (s *store) filesOf(fullName string) *podFiles {
	files := s.pods[fullName]
	if files == nil {
		format := stateFormat
		format.Check = func(state *storedRollout) error { return state.check(fullName) }
		files = &podFiles{state: format.File(filepath.Join(s.path(fullName), stateFile), s.disk),
			revisions: revisionFormat.Dir(s.path(fullName), s.disk)}
		s.pods[fullName] = files
	}
	return files
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

// check returns why the state is not that of the pod.
func (state *storedRollout) check(fullName string) error {
	switch {
	case state.Namespace+"/"+state.Name != fullName:
		return fmt.Errorf("it is of pod %s/%s", state.Namespace, state.Name)
	case state.Current == "":
		return errors.New("it names no revision")
	}
	return nil
}

// load reads all rollouts. Without the state of one, the newest manifest of its pod comes into effect.
func (s *store) load() map[string]*storedRollout {
	found := map[string]*storedRollout{}
	if s.dir == "" {
		return found
	}
	for _, fullName := range s.names() {
		f := s.filesOf(fullName).state
		state, err := read(s, f)
		switch {
		case err == nil:
			found[fullName] = &state
		case isTemporary(err):
			s.log.Warn("State of a rollout cannot be read, the pod runs the newest revision of its manifest", "file", f.Path(),
				"err", err)
		case !errors.Is(err, fs.ErrNotExist):
			s.log.Warn("State of a rollout cannot be used, the pod runs the newest revision of its manifest", "file", f.Path(),
				"reason", err, "movedTo", statefile.MovedTo(err))
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
			_ = s.disk.Do().Remove(filepath.Join(s.dir, e.Name())) // those with pods are not empty
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
	for _, suffix := range []string{statefile.SuffixDamaged, statefile.SuffixNewer} {
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

const (
	// maxPatience is how long a start waits at most, in all, for files that cannot be read at the
	// moment. To forget a rollout starts a revision that failed.
	maxPatience = 2 * time.Second
	// readRetry is the time between two attempts to read a file.
	readRetry = 100 * time.Millisecond
)

// isTemporary reports whether the error of a read means nothing for the content of the file.
func isTemporary(err error) bool {
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, statefile.ErrDamaged) && !errors.Is(err, statefile.ErrNewer)
}

// read reads a file, several times if need be.
func read[T any](s *store, f *statefile.File[T]) (T, error) {
	for {
		v, err := f.Load()
		if err == nil || !isTemporary(err) || s.patience <= 0 {
			return v, err
		}
		s.patience -= readRetry
		time.Sleep(readRetry)
	}
}

// revision reads a revision of a pod.
func (s *store) revision(fullName string, e entry) (*revision, error) {
	if s.dir == "" {
		return nil, fmt.Errorf("revision %s is not stored", e.Revision)
	}
	f, err := s.filesOf(fullName).revisions.File(e.Revision)
	if err != nil {
		return nil, err
	}
	stored, err := read(s, f)
	if err != nil {
		return nil, fmt.Errorf("revision %s cannot be read: %w", e.Revision, err)
	}
	if stored.Pod == nil || stored.Pod.UID == "" || stored.Pod.Namespace+"/"+stored.Pod.Name != fullName ||
		revisionID(stored.Pod) != e.Revision {
		return nil, fmt.Errorf("revision %s cannot be read from %s: it is another pod", e.Revision, f.Path())
	}
	return &revision{id: e.Revision, pod: stored.Pod, manifestUID: stored.ManifestUID, images: stored.Images}, nil
}

// write writes the state of a rollout and those of its revisions that are not written
// yet.
func (s *store) write(fullName string, state *storedRollout, revisions []*revision, mode writeMode) error {
	if s.dir == "" {
		return nil
	}
	files, durability := s.filesOf(fullName), statefile.Atomic
	// A state that a power cut damages may be the only one that names the last good
	// revision. One that is the first of its pod has nothing to lose, so that the start of
	// many pods does not wait for the disk.
	_, err := os.Lstat(files.state.Path())
	if mode != durably && errors.Is(err, fs.ErrNotExist) {
		durability = statefile.Unsynced
	}
	for _, r := range revisions {
		f, err := files.revisions.File(r.id)
		if err == nil {
			err = f.SaveWith(storedRevision{Version: storeVersion, ManifestUID: r.manifestUID, Images: r.images, Pod: r.pod},
				durability)
		}
		if err != nil {
			return err
		}
	}
	if mode == durably {
		durability = statefile.Durable
	}
	return files.state.SaveWith(*state, durability)
}

// trim removes the files of revisions that a history no longer has, except those of keep.
func (s *store) trim(fullName string, h history, keep []string) {
	if s.dir == "" {
		return
	}
	revisions := s.filesOf(fullName).revisions
	ids, _ := revisions.Keys()
	for _, id := range ids {
		if id != stateName && h.index(id) < 0 && !slices.Contains(keep, id) {
			_ = revisions.Remove(id) // the next round tries it again
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
	err := errors.Join(s.filesOf(fullName).state.Remove(), s.disk.Do().RemoveAll(dir))
	delete(s.pods, fullName)
	if err == nil {
		_ = s.disk.Do().Remove(filepath.Dir(dir)) // the namespace's, if it is empty
		s.disk.Unwritten.Report(filepath.Join(dir, stateFile), nil)
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
		err = errors.Join(err, s.disk.Do().Sync(filepath.Join(dir, e.Name())))
	}
	for _, path := range []string{dir, filepath.Dir(dir), s.dir} {
		err = errors.Join(err, s.disk.Do().Sync(path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("Failed to sync the rollout of a pod", "directory", dir, "err", err)
	}
}
