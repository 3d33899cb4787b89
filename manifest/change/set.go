package change

import (
	"context"
	"errors"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/edit"
)

// Set is a change of any number of objects, which is written as a whole or not at all. It is not safe for concurrent
// use.
type Set struct {
	dir    *edit.Directory
	loader *manifest.Loader
	// declaration returns where an object in effect comes from.
	declaration func(manifest.ObjectRef) (manifest.Declared, bool)
}

// Open reads the manifests at a path, a directory or a file. declaration returns where an object in effect comes from,
// and false if it is not known.
func Open(path string, loader *manifest.Loader,
	declaration func(manifest.ObjectRef) (manifest.Declared, bool)) (*Set, error) {
	dir, err := edit.Read(path)
	return &Set{dir: dir, loader: loader, declaration: declaration}, err
}

// Refs returns the objects that the manifests declare, in the order of the files.
func (s *Set) Refs() []manifest.ObjectRef { return s.dir.Refs() }

// Find returns the document that declares an object. The error is why the object cannot be changed here, of the class
// ErrRefused if it comes from elsewhere, edit.ErrNotFound if there is none.
func (s *Set) Find(ref manifest.ObjectRef) (edit.Found, error) {
	found, err := s.dir.Find(ref)
	if known, ok := s.declaration(ref); ok {
		if err := sourceError(ref, known.Source, known.Unit, err == nil, s.dir.Faults()); err != nil {
			return found, refusedError{err}
		}
	}
	return found, err
}

// Apply adds the objects of a manifest, or changes them, as edit.Directory.Apply does.
func (s *Set) Apply(unit string, data []byte, docs []edit.Document) ([]edit.Change, error) {
	for _, doc := range docs {
		if _, err := s.Find(doc.Ref); err != nil && !errors.Is(err, edit.ErrNotFound) {
			return nil, err
		}
	}
	changes, err := s.dir.Apply(unit, data, docs)
	return changes, refused(err)
}

// Merge changes an object and keeps what else its document has, as edit.Directory.Merge does.
func (s *Set) Merge(doc edit.Document) (edit.Change, error) { return s.one(doc.Ref, doc, s.dir.Merge) }

// Replace writes the text of a document as it is, as edit.Directory.Replace does.
func (s *Set) Replace(doc edit.Document) (edit.Change, error) {
	return s.one(doc.Ref, doc, s.dir.Replace)
}

// Remove removes the document of an object.
func (s *Set) Remove(ref manifest.ObjectRef) (edit.Change, error) {
	return s.one(ref, edit.Document{}, func(edit.Document) (edit.Change, error) { return s.dir.Remove(ref) })
}

// one changes one object, if it can be changed here.
func (s *Set) one(ref manifest.ObjectRef, doc edit.Document,
	make func(edit.Document) (edit.Change, error)) (edit.Change, error) {
	if _, err := s.Find(ref); err != nil {
		return edit.Change{}, err
	}
	change, err := make(doc)
	return change, refused(err)
}

// refused gives the errors of changes that can never be made their class.
func refused(err error) error {
	if err == nil || errors.Is(err, edit.ErrNotFound) {
		return err
	}
	return refusedError{err}
}

// Commit checks the files that are to be written, and writes them unless dryRun is set. Other documents of a file may
// have faults, and keep all of it from taking effect. report gets the faults before anything is written; with a fatal
// one nothing is, and the error is the faults. It is edit.ErrChanged if another writer was faster.
func (s *Set) Commit(ctx context.Context, dryRun bool, report func(manifest.Faults) error) error {
	var all, faults manifest.Faults
	for _, c := range s.dir.Changes() {
		if c.After != nil && !faults.Fatal() {
			_, faults = s.loader.Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: c.Path, Data: c.After})
			all = append(all, faults...)
		}
	}
	if err := report(all); err != nil || dryRun && !faults.Fatal() {
		return err
	}
	if faults.Fatal() {
		return faults
	}
	return s.dir.Commit(ctx)
}
