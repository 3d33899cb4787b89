package edit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podstead/podstead/manifest"
)

// ErrNotFound reports that no manifest declares an object.
var ErrNotFound = errors.New("is in no manifest")

// DuplicateError reports that two documents declare one object.
type DuplicateError struct {
	Ref   manifest.ObjectRef
	Files []string
}

func (e *DuplicateError) Error() string {
	files := slices.Compact(slices.Clone(e.Files))
	if len(files) == 1 {
		return fmt.Sprintf("%s is declared twice in %s; remove one of them", e.Ref, files[0])
	}
	return fmt.Sprintf("%s is declared in %s; remove one of them", e.Ref, strings.Join(files, " and in "))
}

// Directory is the content of a manifest directory, or of a single manifest file, at one time,
// with changes that Commit writes. It is not safe for concurrent use.
type Directory struct {
	path   string
	single bool
	// files are the manifests by path, names their paths in the order of the directory.
	files map[string]*file
	names []string
}

// file is one manifest.
type file struct {
	path string
	// before is the content that was read, after the content to write; nil is no file.
	before, after []byte
	parts         []manifest.Part
	// faults are those of documents that cannot be decoded: what they declare is not known.
	faults manifest.Faults
	// secret reports that the file gets a Secret.
	secret bool
}

// Read reads the manifests at a path, which is a directory or a single file. Files that cannot
// be read or decoded are in Faults.
func Read(path string) (*Directory, error) {
	d := &Directory{path: filepath.Clean(path), files: map[string]*file{}}
	info, err := os.Stat(d.path)
	if err != nil {
		return nil, fmt.Errorf("failed to read the manifests: %w", err)
	}
	if d.single = !info.IsDir(); d.single {
		d.read(d.path)
		return d, nil
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("failed to read the manifests: %w", err)
	}
	for _, e := range entries {
		if manifest.IsManifestFile(e.Name()) {
			d.read(filepath.Join(d.path, e.Name()))
		}
	}
	return d, nil
}

func (d *Directory) read(path string) {
	f := &file{path: path}
	data, fault := manifest.ReadFile(path)
	if fault != nil {
		f.faults = manifest.Faults{*fault}
	} else {
		f.before = append([]byte{}, data...) // not nil, even if empty
		f.set(f.before)
	}
	d.files[path], d.names = f, append(d.names, path)
}

// set gives a file its new content.
func (f *file) set(data []byte) {
	f.after = data
	f.parts, f.faults = manifest.Parts(f.path, data)
}

// Faults returns why some manifests cannot be read or decoded. What they declare is not known.
func (d *Directory) Faults() (all manifest.Faults) {
	for _, name := range d.names {
		all = append(all, d.files[name].faults...)
	}
	return all
}

// Refs returns the objects that the manifests declare, in the order of the files.
func (d *Directory) Refs() (all []manifest.ObjectRef) {
	for _, name := range d.names {
		for _, p := range d.files[name].parts {
			all = append(all, p.Refs...)
		}
	}
	return all
}

// Found is a document of the directory.
type Found struct {
	File string
	// Text is its text, Value the decoded object.
	Text  []byte
	Value map[string]any
	part  manifest.Part
}

// Find returns the document that declares an object. The error is ErrNotFound if there is none,
// and a DuplicateError if there are two.
func (d *Directory) Find(ref manifest.ObjectRef) (Found, error) {
	var found []Found
	var files []string
	for _, name := range d.names {
		for _, p := range d.files[name].parts {
			for _, r := range p.Refs {
				if r == ref {
					value, _ := p.Value.(map[string]any)
					found, files = append(found, Found{File: name, Text: d.files[name].after[p.Start:p.End], Value: value, part: p}),
						append(files, name)
				}
			}
		}
	}
	switch len(found) {
	case 0:
		return Found{}, fmt.Errorf("%s %w", ref, ErrNotFound)
	case 1:
		return found[0], nil
	}
	return Found{}, &DuplicateError{Ref: ref, Files: files}
}

// Change is what was done to one object.
type Change struct {
	Ref  manifest.ObjectRef
	File string
	// Before and After are the texts of the document, nil if there is none. They are equal if
	// nothing changes.
	Before, After []byte
}

// Verb returns created, configured, unchanged or deleted.
func (c *Change) Verb() string {
	switch {
	case c.Before == nil:
		return "created"
	case c.After == nil:
		return "deleted"
	case string(c.Before) == string(c.After):
		return "unchanged"
	}
	return "configured"
}

// Write writes a document over the one of its object, or adds it to the file of that name: name is
// the base name of a file in the directory, which need not exist, and is used only for an object
// that no manifest declares. Nothing is on the disk before Commit.
func (d *Directory) Write(doc Document, name string) (Change, error) {
	found, err := d.Find(doc.Ref)
	if errors.Is(err, ErrNotFound) {
		return d.add(doc, name)
	}
	if err != nil {
		return Change{}, err
	}
	change := Change{Ref: doc.Ref, File: found.File, Before: found.Text, After: found.Text}
	switch {
	case found.part.List:
		return change, listError(doc.Ref, found.File)
	case sameValue(found.Value, doc.Value):
		return change, nil
	}
	text, err := replacement(found, doc)
	if err != nil {
		return change, err
	}
	return d.replace(found, doc, text)
}

// Replace is like Put for an object that a manifest declares, but writes the text of the document
// as it is, also if only its form or its comments change. In a JSON file it is written as JSON.
func (d *Directory) Replace(doc Document) (Change, error) {
	found, err := d.Find(doc.Ref)
	switch {
	case err != nil:
		return Change{}, err
	case found.part.List:
		return Change{}, listError(doc.Ref, found.File)
	}
	text := doc.Text
	if found.part.JSON {
		if text, err = doc.json(); err != nil {
			return Change{}, err
		}
	}
	return d.replace(found, doc, text)
}

// replace writes a text over that of a document.
func (d *Directory) replace(found Found, doc Document, after []byte) (Change, error) {
	change := Change{Ref: doc.Ref, File: found.File, Before: found.Text, After: after}
	f := d.files[found.File]
	if err := checkWritable(f.path); err != nil {
		return change, err
	}
	start, end := found.part.Start, found.part.End
	text := slices.Clone(change.After)
	if !found.part.JSON && start > 0 && f.after[start-1] != '\n' && !strings.HasSuffix(string(f.after[:start]), "\ufeff") {
		text = append([]byte("\n"), text...) // the document began on the line of its marker
	}
	before := *f
	f.set(slices.Concat(f.after[:start], text, f.after[end:]))
	if d.check(doc) != nil { // blank lines after it are part of a block scalar at its end that keeps them
		f.set(slices.Concat(before.after[:start], text, before.after[skipBlankLines(before.after, end):]))
	}
	return change, cmp.Or(d.check(doc), f.checkOthers(&before, doc.Ref))
}

// replacement returns the text of a document that replaces another one: as its author wrote it,
// but with the comments of the other one if it has none.
func replacement(found Found, doc Document) ([]byte, error) {
	if found.part.JSON {
		return doc.json()
	}
	if hasComments(found.Text) && !hasComments(doc.Text) {
		if merged := merge(found.Text, found.Value, doc.Value); merged != nil {
			return merged, nil
		}
	}
	return doc.Text, nil
}

// Merge is like Put for an object that a manifest declares, but keeps the comments, the order
// and the style of its document.
func (d *Directory) Merge(doc Document) (Change, error) {
	found, err := d.Find(doc.Ref)
	if err != nil {
		return Change{}, err
	}
	if !found.part.List && !found.part.JSON {
		if merged := merge(found.Text, found.Value, doc.Value); merged != nil {
			doc.Text = merged
		}
	}
	return d.Write(doc, "")
}

// ItemError returns why a document cannot be changed or shown as that of one object: the object is
// an item of a List. It is nil otherwise.
func (f Found) ItemError(ref manifest.ObjectRef) error {
	if f.part.List {
		return listError(ref, f.File)
	}
	return nil
}

func listError(ref manifest.ObjectRef, path string) error {
	return fmt.Errorf("%s is an item of a list in %s; edit the file, or make it a document of its own", ref, path)
}

// add adds a document to a file.
func (d *Directory) add(doc Document, name string) (Change, error) {
	path := filepath.Join(d.path, filepath.Base(name))
	if d.single {
		path = d.path
	}
	change := Change{Ref: doc.Ref, File: path, After: doc.Text}
	if !d.single && !manifest.IsManifestFile(filepath.Base(path)) {
		return change, fmt.Errorf("%s: a manifest must end in .yaml, .yml or .json", path)
	}
	f := d.files[path]
	if f == nil {
		f = &file{path: path}
		d.files[path], d.names = f, append(d.names, path)
		slices.Sort(d.names)
	} else if err := checkWritable(path); err != nil && f.before != nil {
		return change, err
	}
	if f.before == nil && len(f.faults) > 0 {
		return change, f.faults // it exists and cannot be read
	}
	f.secret = f.secret || doc.Ref.Kind == manifest.KindSecret && !f.hasSecret()
	text, separator := slices.Concat(doc.comments, doc.Text), "---\n"
	if filepath.Ext(path) == ".json" {
		encoded, err := doc.json()
		if err != nil {
			return change, err
		}
		change.After = encoded
		text, separator = append(encoded, '\n'), ""
	}
	content := slices.Clone(withLineEnd(f.after))
	if len(f.parts) > 0 {
		content = append(content, separator...)
	}
	before := *f
	f.set(append(content, text...))
	return change, cmp.Or(d.check(doc), f.checkOthers(&before, doc.Ref))
}

// check confirms that the edited text declares the object as desired.
func (d *Directory) check(doc Document) error {
	found, err := d.Find(doc.Ref)
	if err == nil && !sameValue(found.Value, doc.Value) {
		err = errors.New("the result would be another object")
	}
	if err != nil {
		return fmt.Errorf("failed to edit the manifest of %s: %w; edit it by hand", doc.Ref, err)
	}
	return nil
}

// checkOthers confirms that an edit of one object has left the other documents as they were before.
func (f *file) checkOthers(before *file, edited manifest.ObjectRef) error {
	others := func(f *file) []manifest.Part {
		return slices.DeleteFunc(slices.Clone(f.parts), func(p manifest.Part) bool { return slices.Contains(p.Refs, edited) })
	}
	text := func(f *file, p *manifest.Part) string { return string(withLineEnd(f.after[p.Start:p.End])) }
	was, is := others(before), others(f)
	same := len(was) == len(is) && len(before.faults) == len(f.faults)
	for i := range was {
		same = same && sameValue(was[i].Value, is[i].Value) && text(before, &was[i]) == text(f, &is[i])
	}
	if same {
		return nil
	}
	return fmt.Errorf("failed to edit the manifest of %s: another document of %s would change, such as one that ends "+
		"without a line break; edit the file by hand", edited, f.path)
}

// hasSecret reports whether a manifest has a Secret already: its author has decided who may read it.
func (f *file) hasSecret() bool {
	return f.before != nil && slices.ContainsFunc(f.parts, func(p manifest.Part) bool {
		return slices.ContainsFunc(p.Refs, func(r manifest.ObjectRef) bool { return r.Kind == manifest.KindSecret })
	})
}

// skipBlankLines returns the offset of the first line at or after an offset that is not blank. What is left of a line
// counts as one.
func skipBlankLines(text []byte, at int) int {
	for at < len(text) {
		line, rest, _ := bytes.Cut(text[at:], []byte("\n"))
		if len(bytes.TrimSpace(line)) > 0 {
			break
		}
		at = len(text) - len(rest)
	}
	return at
}

// Remove removes the document of an object, and its file with the last document.
func (d *Directory) Remove(ref manifest.ObjectRef) (Change, error) {
	found, err := d.Find(ref)
	if err != nil {
		return Change{}, err
	}
	change := Change{Ref: ref, File: found.File, Before: found.Text}
	if found.part.List {
		return change, listError(ref, found.File)
	}
	f := d.files[found.File]
	if err := checkWritable(f.path); err != nil {
		return change, err
	}
	if len(f.parts) == 1 && len(f.faults) == 0 {
		if d.single {
			return change, fmt.Errorf("%s is the last document of %s, which the daemon reads as its only manifest; edit it, "+
				"or write a PodList with items: []", ref, f.path)
		}
		f.after, f.parts = nil, nil
		return change, nil
	}
	begin, end := removedFrom(f.after, found.part), found.part.End
	if !found.part.JSON {
		// A block scalar of the document before it may keep the blank lines that follow.
		end = skipBlankLines(f.after, end)
	}
	before := *f
	f.set(slices.Concat(f.after[:begin], f.after[end:]))
	if _, err := d.Find(ref); !errors.Is(err, ErrNotFound) {
		return change, fmt.Errorf("failed to remove %s from %s: %w; edit it by hand", ref, f.path,
			cmp.Or(err, errors.New("it is still there")))
	}
	return change, f.checkOthers(&before, ref)
}

// removedFrom returns where the text of a removed document begins: with the comments directly
// above it, and at its marker if it has one. Of the first document without a marker, comments
// that a blank line separates are those of the file.
func removedFrom(text []byte, p manifest.Part) int {
	above := string(text[p.Begin:p.Start])
	if i := strings.LastIndex("\n"+above, "\n---"); i >= 0 || p.JSON {
		return p.Begin + max(i, 0)
	}
	if i := strings.LastIndex(above, "\n\n"); i >= 0 {
		return p.Begin + i + 2
	}
	return p.Begin
}

// checkWritable returns why a manifest must not be replaced by a rename.
func checkWritable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is a symbolic link to %s, whose owner may not expect a change; edit that file, or replace "+
			"the link by a copy", path, target)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; edit it by hand", path)
	case linksOf(info) > 1:
		return fmt.Errorf("%s has %d hard links, of which only one would change; edit it by hand", path, linksOf(info))
	}
	if _, err := os.Lstat(path + manifest.SignatureSuffix); err == nil {
		return fmt.Errorf("%s is signed (%s): its signature would not be valid for the changed file; change the file, sign "+
			"it, and replace both", path, path+manifest.SignatureSuffix)
	}
	return nil
}
