package statefile

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// File is one file of a Format. It is safe for concurrent use. Within a process a path has one File. With an empty path
// there never is a file: Save and Remove do nothing.
type File[T any] struct {
	format *Format[T]
	path   string
	disk   Disk

	// mu is held while the file is read or written.
	mu sync.Mutex
	// known is the hash of what the file has, the zero value if that is not known: what would change nothing is not
	// written, because flash memory wears.
	known [sha256.Size]byte
	// reached is the durability with which the known content was written.
	reached Durability
	// refusal is why the file must not be replaced, nil if it may.
	refusal error
	// pending: the last write failed, and is to be repeated. unwritten is its content, nil for a file that is to be
	// removed.
	pending   bool
	unwritten []byte
}

// File returns the file at a path.
func (f *Format[T]) File(path string, disk Disk) *File[T] {
	return &File[T]{format: f, path: path, disk: disk}
}

// Path returns the path of the file.
func (f *File[T]) Path() string { return f.path }

// paths returns the copies of the file. The first one is written first, so that no other one is newer.
func (f *File[T]) paths() []string {
	if f.format.Sequence == nil {
		return []string{f.path}
	}
	return []string{f.path, f.path + suffixBackup}
}

// Load returns the content: what Save was last called with, also if it could not be written yet. Without a file it
// returns the zero value and an error that wraps fs.ErrNotExist. A file that is damaged or newer is left or moved
// aside; then the error is an *Error. Any other error is that of a file that cannot be read now.
func (f *File[T]) Load() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pending && f.mayReplace() != nil {
		// What was to be written is not what the file has, and does not become so.
		return *new(T), f.refusal
	}
	v, err := f.load()
	f.refusal = nil
	if err != nil && !isMissing(err) && MovedTo(err) == "" && f.refuses(err) {
		f.refusal = err
	}
	return v, err
}

func (f *File[T]) load() (newest T, err error) {
	if f.pending {
		if f.unwritten == nil {
			return newest, &fs.PathError{Op: "open", Path: f.path, Err: fs.ErrNotExist}
		}
		return f.format.decode(f.path, f.unwritten)
	}
	f.known = [sha256.Size]byte{}
	if f.path == "" {
		return newest, fs.ErrNotExist
	}
	var failures []error
	found := false
	for _, path := range f.paths() {
		v, data, err := f.format.read(f.disk, path)
		switch {
		case isMissing(err):
		case errors.Is(err, ErrNewer) && f.format.Newer == Refuse:
			return *new(T), err // another copy may be older than what is in this one
		case err != nil:
			failures = append(failures, err)
		case !found || f.format.Sequence(&v) > f.format.Sequence(&newest):
			newest, found = v, true
			if f.format.Sequence == nil {
				f.known, f.reached = sha256.Sum256(data), f.format.Durability
			}
		}
	}
	switch {
	case found:
		return newest, nil
	case len(failures) > 0:
		return newest, f.moveAside(failures)
	}
	return newest, &fs.PathError{Op: "open", Path: f.path, Err: fs.ErrNotExist}
}

// refuses reports whether a file must not be replaced after this error of load. One that cannot be read may have any
// content.
func (f *File[T]) refuses(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return f.format.policy(e) == Refuse
	}
	return f.format.Damaged == Refuse
}

// moveAside moves the copies that cannot be used, if that is what is done with them, and returns the error.
func (f *File[T]) moveAside(failures []error) error {
	for _, failure := range failures {
		var e *Error
		if errors.As(failure, &e) && f.format.policy(e) == MoveAside {
			f.rename(e)
		}
	}
	return errors.Join(failures...)
}

func (f *File[T]) rename(e *Error) {
	to := e.Path + SuffixDamaged
	if e.Kind == ErrNewer {
		to = e.Path + SuffixNewer
	}
	if err := f.disk.Do().Rename(e.Path, to); err != nil {
		e.Cause = fmt.Errorf("%w; it could not be moved aside: %w", e.Cause, err)
		return
	}
	e.MovedTo = to
}

// MoveAside moves a file that Load has refused with this error, after its owner has found out that nothing depends on
// it, and reports whether it did.
func (f *File[T]) MoveAside(refused error) bool {
	var e *Error
	if !errors.As(refused, &e) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rename(e)
	if e.MovedTo != "" {
		f.refusal = nil
	}
	return e.MovedTo != ""
}

// MovedAside reports whether a file that could not be used was moved aside, by this daemon or an earlier one. It is
// true if that cannot be found out.
func (f *File[T]) MovedAside() bool {
	for _, suffix := range []string{SuffixDamaged, SuffixNewer} {
		if _, err := os.Lstat(f.path + suffix); !isMissing(err) {
			return true
		}
	}
	return false
}

// Save makes v the content of the file. It does nothing if the file has it already. After a refusal of Load it is an
// error until the file is gone.
func (f *File[T]) Save(v T) error { return f.SaveFrom(func() T { return v }) }

// SaveFrom is Save of what snapshot returns. It is called while no other write is in progress, so that the newest
// content is written last.
func (f *File[T]) SaveFrom(snapshot func() T) error { return f.save(snapshot, f.format.Durability) }

// SaveWith is Save with another durability.
func (f *File[T]) SaveWith(v T, d Durability) error { return f.save(func() T { return v }, d) }

func (f *File[T]) save(snapshot func() T, d Durability) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := f.format.encode(snapshot())
	if err != nil {
		return fmt.Errorf("failed to encode %s: %w", f.path, err)
	}
	return f.change(data, d)
}

// Remove removes the file and what was moved aside of it. A missing file is no error.
func (f *File[T]) Remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.change(nil, f.format.Durability)
}

// change writes or removes the file, and has that repeated if it fails; mu is held.
func (f *File[T]) change(data []byte, d Durability) error {
	if f.path == "" {
		return nil
	}
	err := f.apply(data, d)
	if !f.format.Repeat {
		return err
	}
	f.pending, f.unwritten = err != nil, nil
	if err != nil {
		f.unwritten = data
	}
	f.disk.Unwritten.Repeat(f.path, err, f.repeat)
	return err
}

// repeat repeats a write that failed, unless a later one has succeeded.
func (f *File[T]) repeat() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.pending {
		return nil
	}
	err := f.apply(f.unwritten, f.format.Durability)
	if err == nil {
		f.pending, f.unwritten = false, nil
	}
	return err
}

// apply writes the file or, with nil, removes it; mu is held.
func (f *File[T]) apply(data []byte, d Durability) error {
	if err := f.mayReplace(); err != nil {
		return err
	}
	if data == nil {
		return f.remove()
	}
	hash := sha256.Sum256(data)
	if hash == f.known && f.reached <= d {
		if _, err := os.Lstat(f.path); err == nil {
			return nil
		}
	}
	f.known = [sha256.Size]byte{}
	for _, path := range f.paths() {
		if err := f.disk.replaceIn(f.format.DirMode, path, data, cmp.Or(f.format.Mode, 0o600), d); err != nil {
			return err
		}
	}
	f.known, f.reached = hash, d
	return nil
}

func (f *File[T]) remove() error {
	f.known = [sha256.Size]byte{}
	var errs []error
	for _, path := range f.paths() {
		for _, suffix := range []string{"", SuffixDamaged, SuffixNewer} {
			// A removal from a read-only disk fails also if there is no file.
			if _, err := os.Lstat(path + suffix); isMissing(err) {
				continue
			}
			if err := f.disk.Do().Remove(path + suffix); err != nil && !isMissing(err) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// mayReplace returns the refusal of Load, unless the administrator has removed the file since.
func (f *File[T]) mayReplace() error {
	if f.refusal == nil {
		return nil
	}
	for _, path := range f.paths() {
		if _, err := os.Lstat(path); !isMissing(err) {
			return fmt.Errorf("%w; it is not replaced: restore it and restart podstead, or remove %s if nothing depends on it",
				f.refusal, strings.Join(f.paths(), " and "))
		}
	}
	f.refusal = nil
	return nil
}
