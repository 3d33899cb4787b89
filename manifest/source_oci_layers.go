package manifest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/podstead/podstead/internal/registry"
)

const (
	// maxArtifactFiles is the maximum number of manifests in an artifact.
	maxArtifactFiles = 1000
	// maxArtifactLayers is the maximum number of layers of an artifact.
	maxArtifactLayers = 200
	// maxUnpacked is the maximum size of an unpacked layer with all that it contains, in
	// bytes. It also bounds the number of its entries, each of which has 512 bytes.
	maxUnpacked = 2 * MaxUnitSize
)

// The annotations of layers that name a file, and that mark an archived directory.
const (
	annotationTitle  = "org.opencontainers.image.title"
	annotationUnpack = "io.deis.oras.content.unpack"
)

// artifactFile is one manifest of an artifact.
type artifactFile struct {
	// name is the title of its layer, or its path in an archive.
	name string
	data []byte
}

// layerForm reports how the manifests of a layer are stored in it.
type layerForm uint8

const (
	ignoredLayer layerForm = iota
	fileLayer
	tarLayer
	gzipTarLayer
	unsupportedLayer
)

// formOf returns the form of a layer, and its name if it is a file.
//
// The title decides first: oras gives every file the media type of a tar archive, unless
// another one is set.
func formOf(layer *registry.Descriptor, index int) (form layerForm, name string) {
	title := path.Clean(layer.Annotations[annotationTitle])
	titled := layer.Annotations[annotationTitle] != ""
	directory := !titled || layer.Annotations[annotationUnpack] == "true"
	mediaType, _, _ := strings.Cut(layer.MediaType, ";")
	hasSuffix := func(text string, suffixes ...string) bool {
		return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(text, s) })
	}
	switch {
	case titled && !directory && IsManifestFile(path.Base(title)):
		return fileLayer, title
	case titled && !directory && hasSuffix(title, ".tar.gz", ".tgz"), hasSuffix(mediaType, "tar+gzip", "tar.gzip"):
		return gzipTarLayer, ""
	case titled && !directory && hasSuffix(title, ".tar"), directory && hasSuffix(mediaType, ".tar", "/tar", "x-tar"):
		return tarLayer, ""
	case directory && hasSuffix(mediaType, "tar+zstd", "tar.zstd"):
		return unsupportedLayer, ""
	case !titled &&
		slices.Contains([]string{"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "application/json"},
			mediaType):
		extension := ".yaml"
		if mediaType == "application/json" {
			extension = ".json"
		}
		return fileLayer, fmt.Sprintf("layer-%d%s", index+1, extension)
	}
	return ignoredLayer, ""
}

// artifactFiles collects the manifests of an artifact, layer by layer. The zero value is
// empty.
type artifactFiles struct {
	files map[string]artifactEntry
	size  int
}

// artifactEntry is a file, and the number of its layer.
type artifactEntry struct {
	data  []byte
	layer int
}

// errLimit ends the reading of what is too large.
var errLimit = errors.New("too large")

// sorted returns the files in the order of their names.
func (a *artifactFiles) sorted() []artifactFile {
	files := make([]artifactFile, 0, len(a.files))
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		files = append(files, artifactFile{name, a.files[name].data})
	}
	return files
}

// addLayer adds the manifests in the content of a layer. It returns the problem and the
// remedy of a layer that cannot be read.
func (a *artifactFiles) addLayer(form layerForm, name string, index int, data []byte) *Fault {
	switch form {
	case fileLayer:
		if _, ok := a.files[name]; ok {
			return &Fault{Problem: fmt.Sprintf("contains %q twice", name), Remedy: "give each file its own name"}
		}
		return a.addFile(name, index, data)
	case gzipTarLayer:
		unzipped, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return archiveFault(index, err)
		}
		return a.addArchive(index, unzipped)
	case tarLayer:
		return a.addArchive(index, bytes.NewReader(data))
	}
	return nil
}

func archiveFault(index int, err error) *Fault {
	if errors.Is(err, errLimit) {
		return &Fault{
			Problem: fmt.Sprintf("layer %d has more than %d MiB when unpacked", index+1, maxUnpacked>>20),
			Remedy:  "split it into several artifacts, and put only manifests into them",
		}
	}
	return &Fault{Problem: fmt.Sprintf("layer %d is not a valid archive: %v", index+1, err),
		Remedy: "push it again as tar or tar+gzip"}
}

// addFile adds a file, which replaces one of a lower layer.
func (a *artifactFiles) addFile(name string, index int, data []byte) *Fault {
	a.size += len(data) - len(a.files[name].data)
	if a.files == nil {
		a.files = map[string]artifactEntry{}
	}
	a.files[name] = artifactEntry{data, index}
	switch {
	case a.size > MaxUnitSize:
		return &Fault{Problem: fmt.Sprintf("has more than %d MiB of manifests", MaxUnitSize>>20),
			Remedy: "split it into several artifacts"}
	case len(a.files) > maxArtifactFiles:
		return &Fault{Problem: fmt.Sprintf("has more than %d manifests", maxArtifactFiles),
			Remedy: "split it into several artifacts"}
	}
	return nil
}

// limitedReader fails with errLimit after so many bytes, where io.LimitReader would end
// as a complete archive does.
type limitedReader struct {
	io.Reader
	left int
}

// Read implements io.Reader.
func (r *limitedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= n; r.left < 0 {
		return 0, errLimit
	}
	return n, err
}

// addArchive adds the manifests of an archive, in all of its directories. Nothing is
// written to the disk, and no link is followed. A whiteout removes what lower layers of
// an image have.
func (a *artifactFiles) addArchive(index int, archive io.Reader) *Fault {
	entries := tar.NewReader(&limitedReader{archive, maxUnpacked})
	seen := map[string]bool{}
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return archiveFault(index, err)
		}
		name := strings.TrimPrefix(path.Clean("/"+entry.Name), "/")
		if a.removeLower(name, index) || !isArchivedManifest(name) || entry.Typeflag == tar.TypeDir {
			continue
		}
		if entry.Typeflag != tar.TypeReg {
			return &Fault{Problem: fmt.Sprintf("%q is not a regular file", name),
				Remedy: "links are not followed: push the file itself"}
		}
		if seen[name] {
			return &Fault{Problem: fmt.Sprintf("layer %d contains %q twice", index+1, name),
				Remedy: "push it again with one of them"}
		}
		seen[name] = true
		// A sparse file is larger than what the archive stores of it.
		data, err := io.ReadAll(io.LimitReader(entries, MaxUnitSize+1))
		if err != nil {
			return archiveFault(index, err)
		}
		if fault := a.addFile(name, index, data); fault != nil {
			return fault
		}
	}
}

// isArchivedManifest reports whether a file of an archive is read: as in a directory,
// hidden files are not, and neither is what hidden directories contain.
func isArchivedManifest(name string) bool {
	for _, part := range strings.Split(path.Dir(name), "/") {
		if strings.HasPrefix(part, ".") && part != "." {
			return false
		}
	}
	return IsManifestFile(path.Base(name))
}

// The names of whiteouts in the layers of images.
const (
	whiteout       = ".wh."
	opaqueWhiteout = ".wh..wh..opq"
)

// removeLower applies a whiteout to the files of lower layers and reports whether the
// name is that of one.
func (a *artifactFiles) removeLower(name string, index int) bool {
	base, ok := strings.CutPrefix(path.Base(name), whiteout)
	if !ok {
		return false
	}
	removed := path.Join(path.Dir(name), base)
	if path.Base(name) == opaqueWhiteout {
		removed = path.Dir(name)
	}
	for file, entry := range a.files {
		if entry.layer < index && (file == removed || removed == "." || strings.HasPrefix(file, removed+"/")) {
			a.size -= len(entry.data)
			delete(a.files, file)
		}
	}
	return true
}
