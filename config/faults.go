package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/podstead/podstead/config/configfile"
)

// FileError is an error in a configuration file, as opposed to the command line.
type FileError struct{ Err error }

// Error returns the text of Err.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// fault is an error about settings.
type fault struct {
	// at is the field; the zero value for one of the command line.
	at   configfile.Position
	text string
}

func (f *fault) Error() string {
	if f.at == (configfile.Position{}) {
		return f.text
	}
	return f.at.String() + ": " + f.text
}

// fail records a fault of several settings, those among the arguments. The first is broken then. It
// does nothing if one of them is broken already: the fault would follow from another.
func (t *table) fail(format string, args ...any) {
	var all []*setting
	for _, arg := range args {
		if m, ok := arg.(mention); ok {
			s, _ := m.place()
			if s.broken {
				return
			}
			all = append(all, s)
		}
	}
	t.record(format, args)
	if len(all) > 0 {
		all[0].broken = true
	}
}

// failAt records a fault of a setting or of a part of it. The text follows the name.
func (t *table) failAt(m mention, format string, args ...any) {
	t.record("%s"+format, append([]any{m}, args...))
}

func (t *table) record(format string, args []any) {
	var at configfile.Position
	for _, arg := range args {
		m, ok := arg.(mention)
		if !ok {
			continue
		}
		if s, path := m.place(); s.source == fromFile {
			at = s.document.Position(path)
			break
		}
	}
	t.faults = append(t.faults, &fault{at, fmt.Errorf(format, args...).Error()})
}

// err returns all faults as one error, those of the command line first, then by file and line. It
// is a FileError if one is in a file.
func (t *table) err() error {
	if len(t.faults) == 0 {
		return nil
	}
	order := map[string]int{}
	for i, file := range t.files {
		order[file] = i + 1
	}
	slices.SortStableFunc(t.faults, func(a, b *fault) int {
		return cmp.Or(cmp.Compare(order[a.at.File], order[b.at.File]), cmp.Compare(a.at.Line, b.at.Line))
	})
	var errs []error
	inFile := t.unreadable
	seen := map[string]bool{}
	for _, f := range t.faults {
		// A field of a single file has the same fault in the merged document.
		if text := f.Error(); !seen[text] {
			seen[text] = true
			errs = append(errs, f)
		}
		inFile = inFile || f.at.File != ""
	}
	err := errors.Join(errs...)
	if inFile {
		return &FileError{err}
	}
	return err
}
