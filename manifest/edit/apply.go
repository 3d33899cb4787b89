package edit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podstead/podstead/manifest"
)

// Apply puts the objects of a manifest into the directory: each into the file that declares it,
// and new ones into the file of the others, or else into a new file. A manifest of new objects
// only is copied as it is. unit is the path of the manifest, or "-"; docs are its Documents.
//
// After an error nothing of the directory must be committed.
func (d *Directory) Apply(unit string, data []byte, docs []Document) ([]Change, error) {
	name := ""
	files := map[string]bool{}
	for _, doc := range docs {
		found, err := d.Find(doc.Ref)
		switch {
		case err == nil:
			files[found.File], name = true, filepath.Base(found.File)
		case !errors.Is(err, ErrNotFound):
			return nil, err
		}
	}
	if len(docs) == 0 {
		return nil, nil
	}
	if len(files) != 1 {
		name = d.freeName(nameOf(unit, &docs[0]))
	}
	if path := filepath.Join(d.path, name); len(files) == 0 && !d.single && isCopied(name, data) {
		return d.copy(path, data, docs)
	}
	var changes []Change
	for _, doc := range docs {
		change, err := d.Write(doc, name)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change)
	}
	return changes, nil
}

// copy adds a manifest as a file.
func (d *Directory) copy(path string, data []byte, docs []Document) ([]Change, error) {
	f := &file{path: path}
	f.set(data)
	d.files[path], d.names = f, append(d.names, path)
	var changes []Change
	for _, doc := range docs {
		if err := d.check(doc); err != nil {
			return nil, err
		}
		f.secret = f.secret || doc.Ref.Kind == manifest.KindSecret
		changes = append(changes, Change{Ref: doc.Ref, File: path, After: doc.Text})
	}
	return changes, nil
}

// isCopied reports whether a manifest becomes a file as it is: each object is a document of its
// own, so that it can be changed later, in the format that the name reports.
func isCopied(name string, data []byte) bool {
	parts, faults := manifest.Parts(name, data)
	for _, p := range parts {
		if p.List || p.JSON != (filepath.Ext(name) == ".json") {
			return false
		}
	}
	return len(faults) == 0
}

// maxNewName is the maximum length of the name of a new file without its ending: a temporary name
// and a number must fit in the 255 bytes of a file system.
const maxNewName = 200

// nameOf returns the name of a new file: that of the manifest, or one made of its first object.
func nameOf(unit string, first *Document) string {
	if base := filepath.Base(unit); manifest.IsManifestFile(base) {
		return base
	}
	name := first.Ref.Name
	if first.Ref.Kind != "Pod" {
		name += "-" + strings.ToLower(first.Ref.Kind)
	}
	if ns := first.Ref.Namespace; ns != "" && ns != "default" {
		name = ns + "-" + name
	}
	if len(name) > maxNewName {
		name = strings.TrimRight(name[:maxNewName], "-.")
	}
	// The name of an object of an invalid manifest may be anything.
	return strings.TrimLeft(strings.ReplaceAll(name, string(filepath.Separator), "-"), ".") + ".yaml"
}

// freeName returns a name that no file of the directory has.
func (d *Directory) freeName(name string) string {
	extension := filepath.Ext(name)
	base := strings.TrimSuffix(name, extension)
	for n := 2; ; n++ {
		path := filepath.Join(d.path, name)
		if _, err := os.Lstat(path); err != nil && d.files[path] == nil {
			return name
		}
		name = fmt.Sprint(base, "-", strconv.Itoa(n), extension)
	}
}
