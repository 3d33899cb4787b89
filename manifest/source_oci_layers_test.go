package manifest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/podstead/podstead/internal/registry"
)

func TestFormOfLayers(t *testing.T) {
	const tarType = "application/vnd.oci.image.layer.v1.tar"
	for _, c := range []struct {
		mediaType, title, unpack string
		form                     layerForm
		name                     string
	}{
		{tarType, "web.yaml", "", fileLayer, "web.yaml"}, // oras without a media type
		{"application/yaml", "pods/web.yml", "", fileLayer, "pods/web.yml"},
		{"application/json", "./web.json", "", fileLayer, "web.json"},
		{"application/yaml", "", "", fileLayer, "layer-3.yaml"},
		{"application/json; charset=utf-8", "", "", fileLayer, "layer-3.json"},
		{tarType + "+gzip", "pods", "true", gzipTarLayer, ""}, // oras with a directory
		{tarType + "+gzip", "x.yaml", "true", gzipTarLayer, ""},
		{"application/vnd.cncf.flux.content.v1.tar+gzip", "", "", gzipTarLayer, ""},
		{"application/vnd.docker.image.rootfs.diff.tar.gzip", "", "", gzipTarLayer, ""},
		{"application/gzip", "pods.tgz", "", gzipTarLayer, ""},
		{tarType, "pods.tar.gz", "", gzipTarLayer, ""},
		{tarType, "pods.tar", "", tarLayer, ""},
		{tarType, "", "", tarLayer, ""},
		{tarType + "+zstd", "", "", unsupportedLayer, ""},
		{tarType, "README.md", "", ignoredLayer, ""},
		{"application/vnd.in-toto+json", "", "", ignoredLayer, ""},
		{"", "", "", ignoredLayer, ""},
		{"application/yaml", ".hidden.yaml", "", ignoredLayer, ""},
	} {
		layer := registry.Descriptor{MediaType: c.mediaType,
			Annotations: map[string]string{annotationTitle: c.title, annotationUnpack: c.unpack}}
		if form, name := formOf(&layer, 2); form != c.form || name != c.name {
			t.Errorf("%s titled %q: %d %q, want %d %q", c.mediaType, c.title, form, name, c.form, c.name)
		}
	}
}

// entry is one of an archive; the zero type is a regular file.
type entry struct {
	name, data string
	kind       byte
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.data)), Typeflag: e.kind}
		if e.kind != 0 && e.kind != tar.TypeReg {
			h.Size, h.Linkname = 0, "target"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e.data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return zipped.Bytes()
}

func (a *artifactFiles) text() string {
	var all []string
	for _, f := range a.sorted() {
		all = append(all, f.name+"="+string(f.data))
	}
	return strings.Join(all, " ")
}

func TestArchivesAreReadInAllDirectories(t *testing.T) {
	var a artifactFiles
	archive := tarOf(t, entry{name: "./", kind: tar.TypeDir}, entry{name: "./web.yaml", data: "1"},
		entry{name: "a/b/db.json", data: "2"},
		entry{name: "/abs.yml", data: "3"}, entry{name: "../../etc/up.yaml", data: "4"}, entry{name: "README.md", data: "no"},
		entry{name: ".git/x.yaml", data: "no"}, entry{name: "._web.yaml", data: "no"},
		entry{name: "a/link.md", kind: tar.TypeSymlink},
		entry{name: "dir.yaml/", kind: tar.TypeDir}, entry{name: "dir.yaml/x.yaml", data: "5"})
	for _, data := range [][]byte{archive, gzipOf(t, archive)} {
		form := tarLayer
		if data[0] == 0x1f {
			form = gzipTarLayer
		}
		a = artifactFiles{}
		if fault := a.addLayer(form, "", 0, data); fault != nil {
			t.Fatal(fault)
		}
		if got, want := a.text(), "a/b/db.json=2 abs.yml=3 dir.yaml/x.yaml=5 etc/up.yaml=4 web.yaml=1"; got != want {
			t.Errorf("files are %s, want %s", got, want)
		}
	}
}

// The layers of an image are one above the other; the files of an artifact are not.
func TestLayersReplaceAndRemove(t *testing.T) {
	var a artifactFiles
	for i, archive := range [][]byte{
		tarOf(t, entry{name: "a.yaml", data: "1"}, entry{name: "b.yaml", data: "1"}, entry{name: "d/x.yaml", data: "1"},
			entry{name: "e/x.yaml", data: "1"}, entry{name: "f/x.yaml", data: "1"}),
		tarOf(t, entry{name: "a.yaml", data: "two"}, entry{name: ".wh.b.yaml"}, entry{name: ".wh.d"},
			entry{name: "e/.wh..wh..opq"}, entry{name: "e/y.yaml", data: "2"}),
	} {
		if fault := a.addLayer(tarLayer, "", i, archive); fault != nil {
			t.Fatal(fault)
		}
	}
	if got, want := a.text(), "a.yaml=two e/y.yaml=2 f/x.yaml=1"; got != want || a.size != len("two21") {
		t.Errorf("files are %s with %d bytes, want %s", got, a.size, want)
	}
	if fault := a.addLayer(fileLayer, "a.yaml", 2, []byte("3")); fault == nil ||
		!strings.Contains(fault.Problem, "twice") {
		t.Errorf("a file twice: %v", fault)
	}
}

func TestLayersAreBounded(t *testing.T) {
	many := make([]entry, maxArtifactFiles+1)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("%d.yaml", i), data: "x"}
	}
	half := entry{name: "a.yaml", data: strings.Repeat("x", MaxUnitSize/2+1)}
	other := half
	other.name = "b.yaml"
	for name, c := range map[string]struct {
		form    layerForm
		data    []byte
		problem string
	}{
		"a link":       {tarLayer, tarOf(t, entry{name: "x.yaml", kind: tar.TypeSymlink}), "is not a regular file"},
		"a hard link":  {tarLayer, tarOf(t, entry{name: "x.yaml", kind: tar.TypeLink}), "is not a regular file"},
		"a device":     {tarLayer, tarOf(t, entry{name: "x.yaml", kind: tar.TypeChar}), "is not a regular file"},
		"twice":        {tarLayer, tarOf(t, entry{name: "x.yaml"}, entry{name: "./x.yaml"}), "twice"},
		"many files":   {tarLayer, tarOf(t, many...), "more than 1000 manifests"},
		"large files":  {gzipTarLayer, gzipOf(t, tarOf(t, half, other)), "more than 10 MiB of manifests"},
		"a large file": {fileLayer, make([]byte, MaxUnitSize+1), "more than 10 MiB of manifests"},
		"a bomb": {gzipTarLayer,
			gzipOf(t, tarOf(t, entry{name: "x.bin", data: strings.Repeat("x", 3*MaxUnitSize)})), "when unpacked"},
		"a bomb of headers": {gzipTarLayer, gzipOf(t, bytes.Repeat(tarOf(t, entry{name: "x"})[:512], maxUnpacked/512+1)),
			"when unpacked"},
		"not gzip": {gzipTarLayer, []byte("kind: Pod"), "not a valid archive"},
		"not tar":  {tarLayer, bytes.Repeat([]byte("x"), 2000), "not a valid archive"},
		"cut off":  {tarLayer, tarOf(t, half)[:4096], "not a valid archive"},
		"cut off, compressed": {gzipTarLayer, gzipOf(t, tarOf(t, entry{name: "x.yaml", data: "kind: Pod"}))[:40],
			"not a valid archive"},
	} {
		var a artifactFiles
		if fault := a.addLayer(c.form, "x.yaml", 0, c.data); fault == nil || !strings.Contains(fault.Problem, c.problem) ||
			fault.Remedy == "" {
			t.Errorf("%s: %v, want %q", name, fault, c.problem)
		}
	}
}

// FuzzArtifactLayers reads arbitrary layers: what is read stays within its bounds.
func FuzzArtifactLayers(f *testing.F) {
	archive := tarOf(f, entry{name: "a.yaml", data: "kind: Pod"}, entry{name: "../b.json", data: "{}"},
		entry{name: ".wh.a.yaml"}, entry{name: "l.yaml", kind: tar.TypeSymlink})
	f.Add(archive, archive, byte(tarLayer))
	f.Add(gzipOf(f, archive), gzipOf(f, archive[:700]), byte(gzipTarLayer))
	f.Add([]byte("kind: Pod"), []byte{}, byte(fileLayer))
	f.Add([]byte{0x1f, 0x8b}, []byte("x"), byte(gzipTarLayer))
	f.Fuzz(func(t *testing.T, lower, upper []byte, kind byte) {
		var a artifactFiles
		for i, data := range [][]byte{lower, upper} {
			if a.addLayer(layerForm(kind%5), fmt.Sprintf("f%d.yaml", i), i, data) != nil {
				return
			}
		}
		size := 0
		for _, file := range a.sorted() {
			size += len(file.data)
			parts := strings.Split(file.name, "/")
			if path.Clean(file.name) != file.name || path.IsAbs(file.name) || slices.Contains(parts, "..") ||
				!IsManifestFile(path.Base(file.name)) {
				t.Errorf("name %q", file.name)
			}
		}
		if size != a.size || size > MaxUnitSize || len(a.files) > maxArtifactFiles {
			t.Errorf("%d files with %d bytes, counted as %d", len(a.files), size, a.size)
		}
	})
}
