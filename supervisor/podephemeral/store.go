package podephemeral

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/boundedfile"
)

const (
	// fileVersion is the version of the file format. A file of another version is ignored: it
	// costs containers for debugging, never a pod.
	fileVersion = 1
	// maxFile bounds a file, in bytes. A write through the API is not larger.
	maxFile = 2 << 20
	// Max is the maximum number of ephemeral containers of a run. They stay in the runtime after
	// they have ended, so that one client could fill the node with them.
	Max = 100
)

// ErrTooMany is in the error of Update for more containers than Max.
var ErrTooMany = errors.New("too many ephemeral containers")

// file is the form of a file.
type file struct {
	Version    int                     `json:"version"`
	Containers []v1.EphemeralContainer `json:"containers"`
}

// entry is what is known of one pod.
type entry struct {
	// containers are not modified; a change replaces them.
	containers []v1.EphemeralContainer
	// merged is the pod of with its ephemeral containers.
	of, merged *v1.Pod
}

// Store keeps the ephemeral containers of pods by UID. It is safe for concurrent use.
type Store struct {
	dir string

	// writing is held during changes.
	writing sync.Mutex

	mu   sync.Mutex
	pods map[types.UID]*entry
}

// Open reads the directory dir, which the first Update creates with mode 0700 if needed. A damaged
// file is ignored with a warning in the log.
func Open(dir string, log *slog.Logger) (*Store, error) {
	s := &Store{dir: dir, pods: map[types.UID]*entry{}}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to read the ephemeral containers of pods: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		uid, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			if strings.HasSuffix(e.Name(), atomicfile.Suffix) {
				_ = os.Remove(path) // the rest of a write that was interrupted
			}
			continue
		}
		containers, err := read(path)
		if err != nil {
			log.Warn("Record of ephemeral containers is damaged, ignoring them", "file", path, "err", err)
			continue
		}
		s.pods[types.UID(uid)] = &entry{containers: containers}
	}
	return s, nil
}

func read(path string) ([]v1.EphemeralContainer, error) {
	data, err := boundedfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != fileVersion {
		return nil, fmt.Errorf("version is %d, this daemon supports version %d", f.Version, fileVersion)
	}
	return f.Containers, nil
}

// With returns the pod with its ephemeral containers, and the same pointer again as long as
// neither has changed; the pod itself if it has none. The result is shared and must not be written
// to. A nil Store has none.
func (s *Store) With(pod *v1.Pod) *v1.Pod {
	if s == nil || pod == nil {
		return pod
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.pods[pod.UID]
	if e == nil {
		return pod
	}
	if pod == e.merged {
		return pod
	}
	if e.of != pod {
		merged := *pod
		merged.Spec.EphemeralContainers = e.containers
		e.of, e.merged = pod, &merged
	}
	return e.merged
}

// Update replaces the ephemeral containers of a pod with those that change returns. When it
// returns without an error, they are on the disk. change gets the present ones, which it must not
// modify; its error is returned as it is. Updates are made one after the other.
func (s *Store) Update(uid types.UID, change func(present []v1.EphemeralContainer) ([]v1.EphemeralContainer, error)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	wanted, err := change(s.of(uid))
	if err != nil {
		return err
	}
	if len(wanted) > Max {
		return fmt.Errorf("%w: a run of a pod has at most %d; restart the pod to remove them", ErrTooMany, Max)
	}
	path, err := s.path(uid)
	if err != nil {
		return err
	}
	data, err := json.Marshal(file{Version: fileVersion, Containers: wanted})
	if err != nil {
		return fmt.Errorf("failed to write %s: %w", path, err)
	}
	err = atomicfile.Replace(path, data)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(s.dir, 0o700); err == nil {
			err = atomicfile.Replace(path, data)
		}
	}
	if err != nil {
		return fmt.Errorf("failed to record the ephemeral containers of the pod: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[uid] = &entry{containers: wanted}
	return nil
}

func (s *Store) of(uid types.UID) []v1.EphemeralContainer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.pods[uid]; e != nil {
		return e.containers
	}
	return nil
}

// Remove forgets the ephemeral containers of a pod. A pod without any is no error.
func (s *Store) Remove(uid types.UID) error {
	if s == nil || !s.has(uid) {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	path, err := s.path(uid)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to remove the record of ephemeral containers: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
	return nil
}

func (s *Store) has(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid] != nil
}

// UIDs returns the pods that have ephemeral containers, in no order.
func (s *Store) UIDs() []types.UID {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.pods))
}

// path rejects a UID that could lead out of the directory. UIDs are validated before; this is the
// last check before a file is written as root.
func (s *Store) path(uid types.UID) (string, error) {
	name := string(uid)
	if name == "" || strings.ContainsAny(name, "/\\\x00") || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("invalid record of ephemeral containers: %q is not a valid UID", name)
	}
	return filepath.Join(s.dir, name+".json"), nil
}
