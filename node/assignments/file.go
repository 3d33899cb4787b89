package assignments

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
)

const (
	// Version is that of the files. A later one is an error: its assignments could be lost.
	Version = 1
	// Limit bounds a file, in bytes.
	Limit = 16 << 20
)

// State is the content of a file. P is what one pod has.
type State[P any] struct {
	Version int    `json:"version"`
	Policy  string `json:"policyName"`
	BootID  string `json:"bootID"`
	// Pods are the pods that have something.
	Pods map[types.UID]P `json:"pods"`
}

// Encode encodes a state as the files have it.
func Encode[P any](s State[P]) ([]byte, error) { return statefile.JSON[State[P]](" ", "\n")(s) }

// File is the file of one manager.
type File[P any] struct {
	*statefile.File[State[P]]
	// BootID is the ID of the present boot, and Policy the policy under which the file is written.
	BootID, Policy string
	// Subject is what is assigned, for errors, such as CPUs. Lost reports what happens if the file is
	// removed while pods run.
	Subject, Lost string
	// Unsaved is the log message of a write that failed.
	Unsaved string
}

// BootID returns the ID of the present boot, empty if it cannot be read. proc is the directory of
// procfs.
func BootID(proc string) string {
	text, _ := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(text))
}

// Read reads a file. One that is missing, or was written before the boot, has no assignments. The
// error reports what to do.
func (f File[P]) Read() (*State[P], error) {
	empty := &State[P]{Version: Version, Policy: f.Policy, BootID: f.BootID, Pods: map[types.UID]P{}}
	s, err := f.Load()
	var unusable *statefile.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return empty, nil
	case errors.Is(err, statefile.ErrNewer):
		return nil, fmt.Errorf("failed to read the assigned %s: %w; start the podstead that wrote it, or %s", f.Subject, err,
			f.remedy())
	case errors.As(err, &unusable):
		return nil, f.Invalid(unusable.Cause)
	case err != nil:
		return nil, fmt.Errorf("failed to read the assigned %s: %w", f.Subject, err)
	}
	if s.BootID != f.BootID {
		return empty, nil
	}
	if s.Pods == nil {
		s.Pods = map[types.UID]P{}
	}
	return &s, nil
}

// Invalid returns the error of a file with such a fault.
func (f File[P]) Invalid(fault error) error {
	return fmt.Errorf("failed to read the assigned %s: %s is invalid: %w; %s", f.Subject, f.Path(), fault, f.remedy())
}

func (f File[P]) remedy() string { return "remove it to start without: " + f.Lost }

// CheckUnused returns the error of inUse if pods have something, although another policy is
// configured: it was changed while they run. Otherwise it removes the file.
func (f File[P]) CheckUnused(inUse func(*State[P]) error) error {
	s, err := f.Read()
	if err != nil {
		return err
	}
	if len(s.Pods) > 0 {
		return inUse(s)
	}
	return f.Remove()
}
