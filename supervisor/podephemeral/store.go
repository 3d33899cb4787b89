package podephemeral

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/objectwrite"
	"github.com/podstead/podstead/internal/statefile"
)

const (
	fileVersion = 1
	// Max is the maximum number of ephemeral containers of a run. They stay in the runtime after
	// they have ended, so that one client could fill the node with them.
	Max = 100
)

// ErrTooMany is in the error of Update for more containers than Max.
var ErrTooMany = objectwrite.Errorf(objectwrite.Forbidden, "too many ephemeral containers")

// file is the form of a file.
type file struct {
	Version    int                     `json:"version"`
	Containers []v1.EphemeralContainer `json:"containers"`
}

// fileFormat is the file of a pod. It costs containers for debugging, never a pod. A write through the API is not
// larger.
var fileFormat = statefile.Format[file]{
	Name: "ephemeral-containers/UID.json", Version: fileVersion, Limit: 2 << 20, Damaged: statefile.MoveAside,
	Newer:   statefile.MoveAside,
	DirMode: 0o700,
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
	files *statefile.Dir[file]
	// unusable are the pods whose file Open could not use. It is not modified.
	unusable map[types.UID]bool

	// writing is held during changes.
	writing sync.Mutex

	mu   sync.Mutex
	pods map[types.UID]*entry
}

// Open reads the directory dir, which the first Update creates with mode 0700 if needed. A damaged
// file is moved aside with a warning in the log.
func Open(dir string, disk statefile.Disk, log *slog.Logger) (*Store, error) {
	s := &Store{files: fileFormat.Dir(dir, disk), unusable: map[types.UID]bool{}, pods: map[types.UID]*entry{}}
	err := s.files.Clean()
	var keys []string
	if err == nil {
		keys, err = s.files.Keys()
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the ephemeral containers of pods: %w", err)
	}
	for _, uid := range keys {
		f, err := s.file(types.UID(uid))
		var content file
		if err == nil {
			content, err = f.Load()
		}
		if err == nil {
			s.pods[types.UID(uid)] = &entry{containers: content.Containers}
			continue
		}
		s.unusable[types.UID(uid)] = true
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("Record of ephemeral containers is damaged, ignoring them", "file", filepath.Join(dir, uid+".json"), "err",
				err)
		}
	}
	return s, nil
}

func (s *Store) file(uid types.UID) (*statefile.File[file], error) {
	f, err := s.files.File(string(uid))
	if err != nil {
		return nil, fmt.Errorf("invalid record of ephemeral containers: %w", err)
	}
	return f, nil
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
func (s *Store) Update(uid types.UID,
	change func(present []v1.EphemeralContainer) ([]v1.EphemeralContainer, error)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	desired, err := change(s.containersOf(uid))
	if err != nil {
		return err
	}
	if len(desired) > Max {
		return fmt.Errorf("%w: a run of a pod has at most %d; restart the pod to remove them", ErrTooMany, Max)
	}
	f, err := s.file(uid)
	if err != nil {
		return err
	}
	err = f.Save(file{Version: fileVersion, Containers: desired})
	if err != nil {
		return fmt.Errorf("failed to record the ephemeral containers of the pod: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[uid] = &entry{containers: desired}
	return nil
}

func (s *Store) containersOf(uid types.UID) []v1.EphemeralContainer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.pods[uid]; e != nil {
		return e.containers
	}
	return nil
}

// Remove forgets the ephemeral containers of a pod. A pod without any is no error.
func (s *Store) Remove(uid types.UID) error {
	if s == nil || !s.has(uid) && !s.unusable[uid] {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.files.Remove(string(uid)); err != nil {
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
