package change

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/objectpatch"
	"github.com/podstead/podstead/internal/objectwrite"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/edit"
)

const (
	// maxAttempts is how often a change is tried that another writer overtakes.
	maxAttempts = 50
	// effectTimeout limits the wait for the daemon to read what was written.
	effectTimeout = 5 * time.Second
)

// Config configures a Writer.
type Config struct {
	// Path is the manifest directory or file, empty if the daemon reads none.
	Path string
	Node string
	Mode manifest.Mode
	// Signed reports that the daemon reads only signed manifests.
	Signed bool
	// Config is what the daemon has read; nil in tests.
	Config *manifest.PodConfig
	// Grace sets the grace period, in seconds, of a pod whose manifest is going to be removed; with nil it has that of
	// its manifest again. Events records who changed what. Both may be nil in tests.
	Grace  func(pod types.UID, seconds *int64)
	Events Events
}

// Events records events of pods, or of the node if the pod is nil.
type Events interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Writer changes objects in the manifest directory. It is safe for concurrent use.
type Writer struct {
	cfg    Config
	loader *manifest.Loader
	// mu orders the changes of this daemon; other writers are found out by manifest/edit.
	mu    sync.Mutex
	found readCache
}

// NewWriter returns a Writer.
func NewWriter(c Config) *Writer {
	return &Writer{cfg: c, loader: manifest.NewLoader(c.Node, c.Mode)}
}

// declared is an object that the directory declares.
type declared struct {
	objectwrite.Declared
	file string
}

// result is a change of an object.
type result struct {
	edit.Change
	// Object is the object as the daemon reads it; the one before a deletion. Pod is it, if it
	// is a pod.
	Object map[string]any
	Pod    *v1.Pod
	// Warnings are about the file.
	Warnings []string
	digest   string
}

func (w *Writer) find(set *Set, ref manifest.ObjectRef) (declared, loaded, error) {
	found, err := set.Find(ref)
	if err != nil {
		return declared{}, loaded{}, err
	}
	if err := found.ItemError(ref); err != nil {
		return declared{}, loaded{}, refusedError{err} // its text declares other objects too
	}
	now, faults := w.load(found.File, found.Text)
	if faults.Fatal() {
		return declared{}, loaded{}, fmt.Errorf("the manifest of %s is invalid, so that it must be corrected first: %w", ref,
			faults)
	}
	d := declared{objectwrite.Declared{Object: now.object, Document: found.Value, Digest: now.digest}, found.File}
	if ref.Kind == manifest.KindSecret {
		d.Object = withStringData(d.Object, d.Document)
	}
	if w.cfg.Config != nil {
		known, _ := w.declaration(ref)
		d.Pending = known.Digest != now.digest
	}
	return d, now, nil
}

// open reads the manifests for one change, or to find an object.
func (w *Writer) open() (*Set, error) {
	if w.cfg.Path == "" {
		return nil, refusedError{errors.New("the daemon reads no manifest directory, so that there is nowhere to write; " +
			"set --pod-manifest-path of podstead run")}
	}
	return Open(w.cfg.Path, w.loader, w.declaration)
}

// declaration returns where an object in effect comes from.
func (w *Writer) declaration(ref manifest.ObjectRef) (manifest.Declared, bool) {
	if w.cfg.Config == nil {
		return manifest.Declared{}, false
	}
	return w.cfg.Config.Declaration(ref)
}

// create adds an object to the directory, in a file of its own. With dryRun nothing is written.
func (w *Writer) create(ctx context.Context, object map[string]any, dryRun bool) (result, error) {
	return w.change(ctx, dryRun, func(set *Set) (result, error) {
		document := documentOf(object)
		doc, err := edit.New(document)
		if err != nil {
			return result{}, err
		}
		found, err := set.Find(doc.Ref)
		if err == nil {
			return result{}, fmt.Errorf("%s %w in %s", doc.Ref, ErrExists, found.File)
		}
		if known, ok := w.declaration(doc.Ref); ok && known.Source != manifest.SourceFile {
			return result{}, fmt.Errorf("%s %w: it comes from %s", doc.Ref, ErrExists, known.Unit)
		}
		if !errors.Is(err, edit.ErrNotFound) {
			return result{}, err
		}
		if w.cfg.Signed {
			return result{}, refusedError{errors.New("this node reads only signed manifests; sign the manifest and copy it " +
				"with its signature into " + w.cfg.Path)}
		}
		now, faults := w.load(doc.Ref.String(), doc.Text)
		if faults.Fatal() {
			return result{}, faults
		}
		changes, err := set.Apply("-", doc.Text, []edit.Document{doc})
		if err != nil {
			return result{}, err
		}
		return result{Change: changes[0], Object: now.object, Pod: now.pod, digest: now.digest}, nil
	})
}

// documentOf returns the document of an object that a client sends.
func documentOf(object map[string]any) map[string]any {
	document := declarable(object)
	metadata, _ := document["metadata"].(map[string]any)
	given, _ := object["metadata"].(map[string]any)
	for _, key := range []string{"name", "namespace"} {
		if given[key] != nil {
			metadata[key] = given[key]
		}
	}
	document["apiVersion"], document["kind"], document["metadata"] = object["apiVersion"], object["kind"], metadata
	return document
}

// update changes an object that the directory declares. With dryRun nothing is written. applied is the annotation of
// kubectl apply that the client sent.
func (w *Writer) update(ctx context.Context, ref manifest.ObjectRef, dryRun bool, u *objectwrite.Update) (done result,
	applied string, err error) {
	done, err = w.change(ctx, dryRun, func(set *Set) (result, error) {
		d, _, err := w.find(set, ref)
		if err != nil {
			return result{}, err
		}
		var desired map[string]any
		if desired, applied, err = u.View.Apply(&u.Patch, &d.Declared); err != nil {
			return result{}, err
		}
		document, err := transfer(ref, d, desired, u.Patch.Whole())
		if err != nil {
			return result{}, err
		}
		doc, err := edit.New(document)
		if err != nil {
			return result{}, err
		}
		if doc.Ref != ref {
			return result{}, fmt.Errorf("%s would become %s: %w", ref, doc.Ref, ErrRefused)
		}
		change, err := set.Merge(doc)
		if err != nil {
			return result{}, err
		}
		now, faults := w.load(change.File, change.After)
		if faults.Fatal() {
			return result{}, faults
		}
		return result{Change: change, Object: now.object, Pod: now.pod, digest: now.digest}, nil
	})
	return done, applied, err
}

// transfer returns the document that declares the desired object.
func transfer(ref manifest.ObjectRef, d declared, desired map[string]any, whole bool) (map[string]any, error) {
	before := d.Object
	if ref.Kind == manifest.KindSecret {
		var shown map[string]any
		if !whole {
			shown, _ = d.Document["stringData"].(map[string]any)
		}
		desired = foldStringData(desired, before, shown)
		before = maps.Clone(before)
		delete(before, "stringData")
	}
	if before["immutable"] == true {
		for _, key := range []string{"data", "binaryData", "immutable"} {
			if !reflect.DeepEqual(before[key], desired[key]) {
				return nil, manifest.Faults{{Unit: d.file, Object: ref.String(), Path: key, Problem: "must not change, since the " +
					"object is immutable", Remedy: "delete the object and create it again"}}
			}
		}
	}
	result := objectpatch.Transfer(d.Document, declarable(before), declarable(desired), manifest.ObjectType(ref.Kind))
	if ref.Kind == manifest.KindSecret {
		result = placeValues(d.Document, result, desired)
	}
	return result, nil
}

// remove removes the document of an object. With dryRun nothing is written.
func (w *Writer) remove(ctx context.Context, ref manifest.ObjectRef, dryRun bool, r *objectwrite.Removal) (result,
	error) {
	set := false
	setGrace := func() {
		if r.UID != "" && r.Grace != nil && !dryRun && w.cfg.Grace != nil {
			set = true
			w.cfg.Grace(r.UID, r.Grace)
		}
	}
	done, err := w.change(ctx, dryRun, func(set *Set) (result, error) {
		d, now, err := w.find(set, ref)
		// An invalid document can be removed.
		var faults manifest.Faults
		if err != nil && !errors.As(err, &faults) {
			return result{}, err
		}
		if r.ResourceVersion != "" && d.Pending {
			return result{}, objectwrite.Errorf(objectwrite.Conflict, "the object has changed since resourceVersion %s",
				r.ResourceVersion)
		}
		// Before the removal, since the pod may end at once. A refused deletion must not shorten
		// the grace period of a pod that is ending.
		setGrace()
		change, err := set.Remove(ref)
		if err != nil {
			return result{}, err
		}
		return result{Change: change, Object: now.object, Pod: now.pod}, nil
	})
	switch {
	case errors.Is(err, edit.ErrNotFound):
		setGrace() // the pod is ending, or going to
	case set && err != nil:
		w.cfg.Grace(r.UID, nil)
	}
	return done, err
}

// change makes one change, again if another writer is faster.
func (w *Writer) change(ctx context.Context, dryRun bool, make func(*Set) (result, error)) (result, error) {
	done, err := w.locked(ctx, dryRun, make)
	if err == nil && !dryRun && done.After != nil && done.Verb() != "unchanged" {
		w.awaitEffect(ctx, &done)
	}
	return done, err
}

// locked makes one change while no other one is made. It unlocks after a panic too, from which the
// HTTP server recovers.
func (w *Writer) locked(ctx context.Context, dryRun bool, make func(*Set) (result, error)) (result, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.attempts(ctx, dryRun, make)
}

func (w *Writer) attempts(ctx context.Context, dryRun bool, make func(*Set) (result, error)) (done result,
	err error) {
	for range maxAttempts {
		var set *Set
		if set, err = w.open(); err != nil {
			return result{}, err
		}
		if done, err = make(set); err != nil {
			return result{}, err
		}
		err = set.Commit(ctx, dryRun, func(faults manifest.Faults) error {
			for _, f := range faults {
				done.Warnings = append(done.Warnings, f.Error())
			}
			return nil
		})
		if !errors.Is(err, edit.ErrChanged) {
			return done, err
		}
		if errors.Is(err, edit.ErrKept) {
			return result{}, err // it needs the attention of the user
		}
	}
	return result{}, err
}

// awaitEffect waits until the daemon has read a change, so that a client that lists the objects
// next finds it. After a timeout the change is read later.
func (w *Writer) awaitEffect(ctx context.Context, done *result) {
	if w.cfg.Config == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, effectTimeout)
	defer cancel()
	changed, unsubscribe := w.cfg.Config.Subscribe()
	defer unsubscribe()
	for {
		if known, ok := w.cfg.Config.Declaration(done.Ref); ok && known.Digest == done.digest {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
