package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/podstead/podstead/internal/boundedfile"
)

// Policy is what is done with a file that cannot be used.
type Policy uint8

const (
	// Refuse leaves the file as it is: Load returns an error, and Save does not replace it. It is for what could be
	// given twice if it were forgotten.
	Refuse Policy = iota
	// MoveAside renames the file, for inspection or for a return to the newer version, and continues without it. It
	// is for what can be found out again, or costs no pod. One file of each kind is kept.
	MoveAside
)

// The suffixes of files that were moved aside.
const (
	SuffixDamaged = ".damaged"
	SuffixNewer   = ".newer"
	suffixBackup  = ".backup"
)

// Errors of Load and Save, wrapped with the path and the cause. A file that cannot be read at the moment is neither.
var (
	// ErrDamaged reports content that is no content of the format.
	ErrDamaged = errors.New("it is damaged")
	// ErrNewer reports a file of a later version.
	ErrNewer = errors.New("it was written by a newer podstead")
)

// Error is the error of a file that is damaged or newer.
type Error struct {
	// Path is the file, and MovedTo where it is now; empty if it was not moved.
	Path, MovedTo string
	// Kind is ErrDamaged or ErrNewer, and Cause why.
	Kind, Cause error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s cannot be used: %v: %v", e.Path, e.Kind, e.Cause)
	if e.MovedTo != "" {
		text += "; it was moved to " + e.MovedTo
	}
	return text
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Cause} }

// MovedTo returns where the file of an error of Load is now, empty if it was not moved.
func MovedTo(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.MovedTo
	}
	return ""
}

// Format is a kind of state file with contents of type T. It is not modified.
type Format[T any] struct {
	// Name is its row in docs/state-files.md.
	Name string
	// Version is that of the field version, which files then have; 0 for files without one.
	Version int
	// Limit bounds a file, in bytes. A longer one is damaged.
	Limit int64
	// Damaged and Newer are what is done with a file that is damaged, or of a greater version.
	Damaged, Newer Policy
	// Mode is the mode of a file, 0 for 0600. DirMode is that of its directory if Save has to create it; with 0 the
	// directory has to exist.
	Mode, DirMode os.FileMode
	// Durability is what a write survives.
	Durability Durability
	// Repeat: a write that failed is reported and repeated, with the newest content, until it succeeds. Without it the
	// old content stays, and the caller decides.
	Repeat bool
	// Sequence returns a number that grows with each write. With it the file is written twice, the second copy next to
	// it: if one of them cannot be used, the other one has the same content, or that before the last write.
	Sequence func(*T) uint64
	// Encode and Decode convert between contents and bytes; nil is JSON.
	Encode func(T) ([]byte, error)
	Decode func([]byte) (T, error)
	// Check returns why a content that decodes is damaged nevertheless; nil checks nothing.
	Check func(*T) error
}

// JSON encodes contents with an indent, and a newline at the end if there is one in end.
func JSON[T any](indent, end string) func(T) ([]byte, error) {
	return func(v T) ([]byte, error) {
		data, err := json.MarshalIndent(v, "", indent)
		return append(data, end...), err
	}
}

// Bytes is the Encode and the Decode of contents that are bytes.
func Bytes(data []byte) ([]byte, error) { return data, nil }

func (f *Format[T]) encode(v T) ([]byte, error) {
	data, err := f.marshal(v)
	if err == nil && f.Limit > 0 && int64(len(data)) > f.Limit {
		err = fmt.Errorf("it would have %d bytes, and at most %d are allowed", len(data), f.Limit)
	}
	return data, err
}

func (f *Format[T]) marshal(v T) ([]byte, error) {
	if f.Encode != nil {
		return f.Encode(v)
	}
	return json.Marshal(v)
}

// Read reads a file for another process than that which writes it: it is never moved aside.
func (f *Format[T]) Read(path string, disk Disk) (T, error) {
	v, _, err := f.read(disk, path)
	return v, err
}

// read reads one copy. Its errors are *Error, for a file that cannot be used, and those of the disk.
func (f *Format[T]) read(disk Disk, path string) (v T, data []byte, err error) {
	data, err = disk.Do().Read(path, f.Limit)
	switch {
	case errors.Is(err, boundedfile.ErrTooLarge), errors.Is(err, boundedfile.ErrNotRegular):
		return v, nil, &Error{Path: path, Kind: ErrDamaged, Cause: err}
	case err != nil:
		return v, nil, err
	}
	v, err = f.decode(path, data)
	return v, data, err
}

// decode decodes the content of a file.
func (f *Format[T]) decode(path string, data []byte) (v T, err error) {
	if f.Version > 0 {
		var head struct {
			Version int `json:"version"`
		}
		if err := json.Unmarshal(data, &head); err != nil {
			return v, &Error{Path: path, Kind: ErrDamaged, Cause: err}
		}
		if head.Version != f.Version {
			cause := fmt.Errorf("it has version %d, and this podstead knows version %d", head.Version, f.Version)
			if head.Version > f.Version {
				return v, &Error{Path: path, Kind: ErrNewer, Cause: cause}
			}
			return v, &Error{Path: path, Kind: ErrDamaged, Cause: cause}
		}
	}
	if f.Decode != nil {
		v, err = f.Decode(data)
	} else {
		err = json.Unmarshal(data, &v)
	}
	if err == nil && f.Check != nil {
		err = f.Check(&v)
	}
	if err != nil {
		var none T
		return none, &Error{Path: path, Kind: ErrDamaged, Cause: err}
	}
	return v, nil
}

// policy returns what is done after an error of read.
func (f *Format[T]) policy(err *Error) Policy {
	if err.Kind == ErrNewer {
		return f.Newer
	}
	return f.Damaged
}

// isMissing reports whether there is no file.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
