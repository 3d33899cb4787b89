package assignments

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/atomicfile"
)

// version is that of the files. A later one is an error: its assignments could be lost.
const version = 1

// State is the content of a file. P is what one pod has.
type State[P any] struct {
	Version int    `json:"version"`
	Policy  string `json:"policyName"`
	BootID  string `json:"bootID"`
	// Pods are the pods that have something.
	Pods map[types.UID]P `json:"pods"`
}

// File is the file of one manager.
type File struct {
	// Path is where it is, and BootID the ID of the present boot.
	Path, BootID string
	// Policy is the policy under which it is written.
	Policy string
	// Subject is what is assigned, for errors, such as CPUs. Lost says what happens if the file is
	// removed while pods run.
	Subject, Lost string
}

// BootID returns the ID of the present boot, empty if it cannot be read. proc is the directory of
// procfs.
func BootID(proc string) string {
	text, _ := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(text))
}

// Read reads a file. One that is missing, or was written before the boot, has no assignments. The
// error says what to do.
func Read[P any](f File) (*State[P], error) {
	empty := &State[P]{Version: version, Policy: f.Policy, BootID: f.BootID, Pods: map[types.UID]P{}}
	data, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the assigned %s: %w", f.Subject, err)
	}
	s := &State[P]{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, f.Invalid(err)
	}
	if s.Version != version {
		return nil, fmt.Errorf("failed to read the assigned %s: %s has version %d, and this podstead knows version %d; start the podstead that wrote it, or %s", f.Subject, f.Path, s.Version, version, f.remedy())
	}
	if s.BootID != f.BootID {
		return empty, nil
	}
	if s.Pods == nil {
		s.Pods = map[types.UID]P{}
	}
	return s, nil
}

// Invalid returns the error of a file with such a fault.
func (f File) Invalid(fault error) error {
	return fmt.Errorf("failed to read the assigned %s: %s is invalid: %w; %s", f.Subject, f.Path, fault, f.remedy())
}

func (f File) remedy() string { return "remove it to start without: " + f.Lost }

// CheckUnused returns the error of inUse if pods have something, although another policy is
// configured: it was changed while they run. Otherwise it removes the file.
func CheckUnused[P any](f File, inUse func(*State[P]) error) error {
	if _, err := os.Lstat(f.Path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := Read[P](f)
	if err != nil {
		return err
	}
	if len(s.Pods) > 0 {
		return inUse(s)
	}
	return os.Remove(f.Path)
}

// Write writes the state, at once or not at all.
func (s *State[P]) Write(path string) error {
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.Replace(path, append(data, '\n'))
}
