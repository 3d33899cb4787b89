package evict

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/internal/unwritten"
)

// state is what a daemon leaves to the next one: the conditions that are set. It
// is written when one changes.
type state struct {
	// Boot is the boot ID: a reboot frees memory and processes.
	Boot       string                 `json:"boot"`
	Conditions []v1.NodeConditionType `json:"conditions"`
}

// maxStateSize limits what is read, in bytes.
const maxStateSize = 1 << 16

// loadState returns the conditions in the file that still apply in this boot, none
// if there is no file.
func loadState(file, boot string) ([]v1.NodeConditionType, error) {
	if file == "" {
		return nil, nil
	}
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var data []byte
	if err == nil && info.Size() <= maxStateSize {
		data, err = os.ReadFile(file)
	}
	var k state
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the node pressure state: %w", err)
	}
	var list []v1.NodeConditionType
	for _, c := range k.Conditions {
		if k.Boot == boot || c == v1.NodeDiskPressure {
			list = append(list, c)
		}
	}
	return list, nil
}

// savedState writes the file, and repeats a write that failed.
type savedState struct {
	file, boot string
	files      *unwritten.Files
	log        *slog.Logger

	mu sync.Mutex
	on []v1.NodeConditionType
	// fault is why the file could not be written, and was logged.
	fault string
}

// save writes the conditions. An error is logged once until it changes.
func (s *savedState) save(on []v1.NodeConditionType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = on
	err, fault := saveState(s.file, s.boot, s.on), ""
	if err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != s.fault {
		s.log.Warn("Failed to persist node pressure state", "file", s.file, "err", fault)
	}
	s.fault = fault
	s.files.Repeat(s.file, err, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return saveState(s.file, s.boot, s.on)
	})
}

// saveState writes the file, or removes it if no condition is set. A full disk may
// not take it; then a restart forgets the pressure, and finds the disk full again.
func saveState(file, boot string, list []v1.NodeConditionType) error {
	if file == "" {
		return nil
	}
	if len(list) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.Marshal(state{Boot: boot, Conditions: list})
	if err != nil {
		return err
	}
	return atomicfile.Replace(file, data)
}
