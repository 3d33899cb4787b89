package evict

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/statefile"
)

// state is what a daemon leaves to the next one: the conditions that are set. It
// is written when one changes.
type state struct {
	// Boot is the boot ID: a reboot frees memory and processes.
	Boot       string                 `json:"boot"`
	Conditions []v1.NodeConditionType `json:"conditions"`
}

// stateFormat is the file of the state. A full disk may not take it; then a restart forgets the pressure, and finds the
// disk full again.
var stateFormat = statefile.Format[state]{
	Name: "pressure.json", Limit: 1 << 16, Damaged: statefile.MoveAside, Newer: statefile.MoveAside,
	Durability: statefile.Atomic, Repeat: true,
}

// savedState writes the file, and repeats a write that failed.
type savedState struct {
	file *statefile.File[state]
	boot string
	log  *slog.Logger

	mu sync.Mutex
	// failure is why the file could not be written, and was logged.
	failure string
}

// load returns the conditions in the file that still apply in this boot, none if there is no file.
func (s *savedState) load() ([]v1.NodeConditionType, error) {
	k, err := s.file.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the node pressure state: %w", err)
	}
	var list []v1.NodeConditionType
	for _, c := range k.Conditions {
		if k.Boot == s.boot || c == v1.NodeDiskPressure {
			list = append(list, c)
		}
	}
	return list, nil
}

// save writes the conditions, or removes the file if none is set. An error is logged once until it changes.
func (s *savedState) save(on []v1.NodeConditionType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if len(on) > 0 {
		err = s.file.Save(state{Boot: s.boot, Conditions: on})
	} else {
		err = s.file.Remove()
	}
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if failure != "" && failure != s.failure {
		s.log.Warn("Failed to persist node pressure state", "file", s.file.Path(), "err", failure)
	}
	s.failure = failure
}
