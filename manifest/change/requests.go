package change

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/objectwrite"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/edit"
)

// Find returns the object that a document of the directory declares. The errors of all requests are objectwrite.Errors.
func (w *Writer) Find(ref objectwrite.Ref) (objectwrite.Declared, error) {
	var d declared
	var findErr error
	err := w.found.find(w.cfg.Path, w.open, func(set *Set) {
		d, _, findErr = w.find(set, manifest.ObjectRef(ref))
	})
	return d.Declared, requestError(errors.Join(err, findErr))
}

// Create adds an object to the directory, in a file of its own.
func (w *Writer) Create(ctx context.Context, object map[string]any, o objectwrite.Options) (objectwrite.Written,
	error) {
	done, err := w.create(ctx, object, o.DryRun)
	return w.written(&done, err, o)
}

// Update changes an object that the directory declares.
func (w *Writer) Update(ctx context.Context, ref objectwrite.Ref, u objectwrite.Update,
	o objectwrite.Options) (objectwrite.Written, error) {
	done, applied, err := w.update(ctx, manifest.ObjectRef(ref), o.DryRun, &u)
	written, err := w.written(&done, err, o)
	written.Applied = applied
	return written, err
}

// Delete removes the document of an object, and sets the grace period of its pod.
func (w *Writer) Delete(ctx context.Context, ref objectwrite.Ref, r objectwrite.Removal,
	o objectwrite.Options) (objectwrite.Written, error) {
	done, err := w.remove(ctx, manifest.ObjectRef(ref), o.DryRun, &r)
	return w.written(&done, err, o)
}

// written records what was written.
func (w *Writer) written(done *result, err error, o objectwrite.Options) (objectwrite.Written, error) {
	if err != nil {
		return objectwrite.Written{}, requestError(err)
	}
	written := objectwrite.Written{Object: done.Object, Changed: done.Verb() != "unchanged", Warnings: done.Warnings}
	if written.Changed && !o.DryRun && w.cfg.Events != nil {
		w.cfg.Events.Event(done.Pod, v1.EventTypeNormal, "ManifestChanged",
			fmt.Sprintf("%s %s in %s by %s through the API", done.Ref, done.Verb(), done.File, o.User))
	}
	return written, nil
}

// requestError returns the error of a change as clients get it.
func requestError(err error) error {
	var known *objectwrite.Error
	var faults manifest.Faults
	var duplicate *edit.DuplicateError
	reason := objectwrite.Internal
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, &faults):
		return faultsError(err, faults)
	case errors.Is(err, ErrExists):
		reason = objectwrite.Exists
	case errors.Is(err, edit.ErrNotFound):
		reason = objectwrite.NotFound
	case errors.Is(err, edit.ErrChanged):
		reason = objectwrite.Conflict
	case errors.Is(err, ErrRefused), errors.As(err, &duplicate):
		// The caller may write, but not this object: a client must not try again.
		reason = objectwrite.Forbidden
	}
	return &objectwrite.Error{Reason: reason, Err: err}
}

// faultsError returns the faults of a manifest as podstead validate prints them, with the field
// of each.
func faultsError(err error, faults manifest.Faults) error {
	e := &objectwrite.Error{Reason: objectwrite.Invalid, Err: err}
	for _, f := range faults {
		if f.Warning {
			continue
		}
		text := f.Problem
		if f.Remedy != "" {
			text += "; " + f.Remedy
		}
		e.Causes = append(e.Causes, objectwrite.Cause{Field: f.Path, Message: text})
		if f.Object != "" {
			e.Object = f.Object
		}
	}
	return e
}
