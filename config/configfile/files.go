package configfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxFileSize is the maximum size of a file in bytes; a real one has a few kilobytes.
	maxFileSize = 1 << 20
	// dropInExtension is the kubelet's.
	dropInExtension = ".conf"
)

// Layer is one file.
type Layer struct {
	// File is the absolute path.
	File string
	// Documents are by kind, at most one of each.
	Documents map[string]*Document
}

// Configuration is what was read.
type Configuration struct {
	// Layers are the file, then the drop-in files in the order in which they are merged.
	Layers []Layer
	// Skipped are the files of the drop-in directory that are no drop-in files.
	Skipped []string
}

// Load reads a file and the drop-in files below a directory, each of them omitted if its path
// is empty. A drop-in file has the extension .conf; all are read in the order of their names,
// those of a subdirectory in its place. Each document has one of the kinds; a drop-in file has
// at least one document. All errors are returned together.
func Load(file, dir string, kinds ...Kind) (*Configuration, error) {
	c := &Configuration{}
	var errs []error
	if file != "" {
		layer, err := readLayer(file, kinds)
		c.Layers, errs = append(c.Layers, layer), append(errs, err)
	}
	if dir == "" {
		return c, errors.Join(errs...)
	}
	dropIns, skipped, err := dropInFiles(dir)
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	c.Skipped = skipped
	for _, path := range dropIns {
		layer, err := readLayer(path, kinds)
		if err == nil && len(layer.Documents) == 0 {
			err = fmt.Errorf("%s: has no document; it must have apiVersion and kind: %s", path, describe(kinds))
		}
		c.Layers, errs = append(c.Layers, layer), append(errs, err)
	}
	return c, errors.Join(errs...)
}

// dropInFiles returns the drop-in files below a directory, and the other files.
func dropInFiles(dir string) (dropIns, skipped []string, err error) {
	// WalkDir does not follow a link at its root.
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to read the drop-in directory: %w", err)
	}
	if fi, err := os.Stat(root); err == nil && !fi.IsDir() {
		return nil, nil, fmt.Errorf("failed to read the drop-in directory %s: it is not a directory", dir)
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("failed to read the drop-in directory %s: %w", dir, err)
		case entry.IsDir():
		case filepath.Ext(path) == dropInExtension:
			dropIns = append(dropIns, path)
		default:
			skipped = append(skipped, path)
		}
		return nil
	})
	return dropIns, skipped, err
}

// readLayer reads one file.
func readLayer(path string, kinds []Kind) (Layer, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Layer{}, fmt.Errorf("failed to read the configuration file %s: %w", path, err)
	}
	layer := Layer{File: abs, Documents: map[string]*Document{}}
	data, err := readFile(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return layer, fmt.Errorf("failed to read the configuration file: %w; create it, or omit the flag that names it", err)
	case err != nil:
		return layer, fmt.Errorf("failed to read the configuration file: %w", err)
	}
	// A file that was truncated, for example by a full disk, must not mean the defaults.
	if len(bytes.TrimSpace(data)) == 0 {
		return layer, fmt.Errorf("%s: is empty; write a configuration or remove the file", path)
	}
	var errs []error
	for _, part := range split(data) {
		doc, kind, err := decode(abs, part, kinds)
		switch {
		case err != nil:
			errs = append(errs, err)
		case doc == nil:
		case layer.Documents[kind] != nil:
			errs = append(errs, fmt.Errorf("%s: kind: a second %s; merge it with the one at line %d", doc.Position("kind"), kind,
				layer.Documents[kind].start.Line))
		default:
			layer.Documents[kind] = doc
		}
	}
	return layer, errors.Join(errs...)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || fi.IsDir() {
		return nil, errors.Join(err, fmt.Errorf("%s is a directory; name a file", path))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = fmt.Errorf("%s has more than the maximum of %d bytes", path, maxFileSize)
	}
	return data, err
}

// Files returns the paths of the layers.
func (c *Configuration) Files() []string {
	var files []string
	for _, layer := range c.Layers {
		files = append(files, layer.File)
	}
	return files
}

// Merged returns the documents of a kind of all layers as one, which is empty if there are
// none.
func (c *Configuration) Merged(kind string) *Document {
	all := newDocument(Position{})
	for _, layer := range c.Layers {
		if doc := layer.Documents[kind]; doc != nil {
			all.merge(doc)
		}
	}
	return all
}

// describe names the kinds for an error.
func describe(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.APIVersion+" "+k.Kind)
	}
	slices.Sort(names)
	return strings.Join(names, " or ")
}
