package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/httpapi/kubeapi"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/change"
	"github.com/podstead/podstead/manifest/edit"
)

// manifestWriter changes manifests for clients of the API, and records who did it.
type manifestWriter struct {
	writer *change.Writer
	// setGrace sets the grace period of a pod whose manifest is going to be removed.
	setGrace func(uid types.UID, seconds *int64)
	events   eventRecorder
}

// eventRecorder records an event of a pod, or of the node if that is nil.
type eventRecorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

func (d *daemon) newManifestWriter() kubeapi.Writer {
	o := &d.opts.Manifests
	return manifestWriter{
		writer: change.NewWriter(change.Config{
			Path: o.Path, Node: d.nodeName, Mode: manifest.Mode(o.Mode), Signed: len(o.Keys.For(manifest.SourceFile)) > 0, Config: d.sources.config,
		}),
		setGrace: d.sup.SetRemovalGrace, events: d.observers.events,
	}
}

func refOf(name kubeapi.ObjectName) manifest.ObjectRef { return manifest.ObjectRef(name) }

func declared(d change.Declared) kubeapi.Declared {
	return kubeapi.Declared{Object: d.Object, Document: d.Document, Pending: d.Pending}
}

// Find implements kubeapi.Writer.
func (m manifestWriter) Find(name kubeapi.ObjectName) (kubeapi.Declared, error) {
	d, err := m.writer.Find(refOf(name))
	return declared(d), writeFailure(err)
}

// Create implements kubeapi.Writer.
func (m manifestWriter) Create(ctx context.Context, object map[string]any, o kubeapi.WriteOptions) (kubeapi.Written, error) {
	result, err := m.writer.Create(ctx, object, o.DryRun)
	return m.written(&result, err, o)
}

// Update implements kubeapi.Writer.
func (m manifestWriter) Update(ctx context.Context, name kubeapi.ObjectName, u kubeapi.Update, o kubeapi.WriteOptions) (kubeapi.Written, error) {
	result, err := m.writer.Update(ctx, refOf(name), o.DryRun, change.Modify{Whole: u.Whole, Wanted: func(d change.Declared) (map[string]any, error) {
		return u.Wanted(declared(d))
	}})
	return m.written(&result, err, o)
}

// Delete implements kubeapi.Writer.
func (m manifestWriter) Delete(ctx context.Context, name kubeapi.ObjectName, r kubeapi.Removal, o kubeapi.WriteOptions) (kubeapi.Written, error) {
	set := false
	check := func(d change.Declared) error {
		if err := r.Check(declared(d)); err != nil {
			return err
		}
		// Before the removal, since the pod may end at once. A refused deletion must not shorten
		// the grace period of a pod that is ending.
		if r.UID != "" && r.Grace != nil && !o.DryRun {
			set = true
			m.setGrace(r.UID, r.Grace)
		}
		return nil
	}
	result, err := m.writer.Delete(ctx, refOf(name), o.DryRun, check)
	switch {
	case errors.Is(err, edit.ErrNotFound):
		// The pod is ending, or going to: its grace period changes.
		if refused := check(change.Declared{}); refused != nil {
			err = refused
		}
	case set && err != nil:
		m.setGrace(r.UID, nil)
	}
	return m.written(&result, err, o)
}

// written records what was written.
func (m manifestWriter) written(result *change.Result, err error, o kubeapi.WriteOptions) (kubeapi.Written, error) {
	if err != nil {
		return kubeapi.Written{}, writeFailure(err)
	}
	w := kubeapi.Written{Object: result.Object, Changed: result.Verb() != "unchanged", Warnings: result.Warnings}
	if w.Changed && !o.DryRun {
		m.events.Event(result.Pod, v1.EventTypeNormal, "ManifestChanged", fmt.Sprintf("%s %s in %s by %s through the API", result.Ref, result.Verb(), result.File, o.User))
	}
	return w, nil
}

// writeFailure returns the error of a change as clients get it.
func writeFailure(err error) error {
	var failure *kubeapi.Failure
	var faults manifest.Faults
	var duplicate *edit.DuplicateError
	code := http.StatusInternalServerError
	switch {
	case err == nil || errors.As(err, &failure):
		return err
	case errors.As(err, &faults):
		return faultsFailure(err, faults)
	case errors.Is(err, change.ErrExists):
		s := apistatus.New(http.StatusConflict, "%v", err)
		s.Reason = metav1.StatusReasonAlreadyExists
		return &kubeapi.Failure{Status: s}
	case errors.Is(err, edit.ErrNotFound):
		code = http.StatusNotFound
	case errors.Is(err, edit.ErrChanged):
		code = http.StatusConflict
	case errors.Is(err, change.ErrRefused), errors.As(err, &duplicate):
		// The caller may write, but not this object: a client must not try again.
		code = http.StatusForbidden
	}
	return &kubeapi.Failure{Status: apistatus.New(code, "%v", err)}
}

// faultsFailure returns the faults of a manifest as podstead validate prints them, with the field
// of each.
func faultsFailure(err error, faults manifest.Faults) error {
	s := apistatus.New(http.StatusUnprocessableEntity, "%v", err)
	s.Details = &metav1.StatusDetails{}
	for _, f := range faults {
		if f.Warning {
			continue
		}
		text := f.Problem
		if f.Remedy != "" {
			text += "; " + f.Remedy
		}
		s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: f.Path, Message: text})
		if f.Object != "" {
			s.Details.Name = f.Object
		}
	}
	return &kubeapi.Failure{Status: s}
}
