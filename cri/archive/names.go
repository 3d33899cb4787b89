package archive

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// Names returns the full names of the images of an uncompressed archive. It reads only
// the headers and the lists, which takes milliseconds whatever the size of the archive.
// It returns none for a compressed archive and for an invalid one, about which Open reports
// more. It leaves the file at its beginning.
func Names(ctx context.Context, file *os.File) (names []string) {
	a := &Archive{file: file, entries: map[string]entry{}}
	err := a.skim(ctx)
	if _, seekErr := file.Seek(0, io.SeekStart); err != nil || seekErr != nil {
		return nil
	}
	add := func(given ...string) {
		for _, name := range given {
			if name, err := fullName(name); err == nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	docker, _ := a.dockerManifest()
	for i := range docker {
		add(docker[i].RepoTags...)
	}
	var index document
	if e, ok := a.find("index.json"); ok && a.decode(e, &index) == nil {
		for _, d := range index.Manifests {
			add(d.name())
		}
	}
	return names
}

// skim records where the JSON documents at the top of the archive are. The tar reader
// skips the content of files by seeking.
func (a *Archive) skim(ctx context.Context) error {
	t, length := tar.NewReader(a.file), 0
	for range maxEntries {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if length += len(h.Name) + len(h.Linkname); length > maxNames || isSparse(h) {
			break
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "/"))
		if h.Typeflag != tar.TypeReg || path.Ext(name) != ".json" || strings.Contains(name, "/") {
			continue
		}
		at, err := a.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		a.entries[name] = entry{offset: at, size: h.Size}
	}
	return fmt.Errorf("no image archive")
}
