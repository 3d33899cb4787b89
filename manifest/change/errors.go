package change

import (
	"errors"
	"fmt"

	"github.com/podstead/podstead/manifest"
)

// The classes of errors in addition to manifest.Faults, edit.ErrNotFound and edit.ErrChanged.
var (
	// ErrExists is wrapped by the error of an object that exists.
	ErrExists = errors.New("already exists")
	// ErrRefused is wrapped by the errors of objects that cannot be changed on this node.
	ErrRefused = errors.New("cannot be changed in the manifest directory")
)

// sourceError returns why an object of a source cannot be changed in the manifest directory; nil
// if it can. declared reports that a manifest of the directory declares it, faults are those of the
// manifests there.
func sourceError(ref manifest.ObjectRef, source manifest.Source, unit string, declared bool,
	faults manifest.Faults) error {
	switch {
	case source == manifest.SourceHTTP:
		return fmt.Errorf("%s comes from %s; change it there, the daemon reads it again", ref, unit)
	case source == manifest.SourceOCI:
		return fmt.Errorf("%s comes from the OCI artifact %s; push a changed artifact", ref, unit)
	case source != manifest.SourceFile:
		return fmt.Errorf("%s comes from an API server (%s); change it there with kubectl", ref, unit)
	case declared:
		return nil
	}
	for _, f := range faults {
		if f.Unit == unit {
			return fmt.Errorf("the last good revision of %s declares %s, and the file is not in effect now: %w; correct the "+
				"file first", unit, ref, f)
		}
	}
	return nil
}

// refusedError is an error of the class ErrRefused with its own text.
type refusedError struct{ error }

func (e refusedError) Is(target error) bool { return target == ErrRefused }

func (e refusedError) Unwrap() error { return e.error }
