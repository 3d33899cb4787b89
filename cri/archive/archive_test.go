package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"

	"github.com/podstead/podstead/test/image"
)

var here = Platform{OS: "linux", Architecture: "amd64"}

// made returns an image with two layers of random content for an architecture.
func made(t testing.TB, arch string) image.Image {
	t.Helper()
	img := image.Image{Architecture: arch}
	for range 2 {
		data := make([]byte, 3000)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		archive, err := image.Tar([]image.File{{Name: "random", Data: data}})
		if err != nil {
			t.Fatal(err)
		}
		layer, err := image.GzipLayer(archive)
		if err != nil {
			t.Fatal(err)
		}
		img = img.WithLayer(layer)
	}
	return img
}

// dockerArchive returns an archive in the format of docker save, with compressed layers.
func dockerArchive(t testing.TB, images map[string]image.Image) []byte {
	t.Helper()
	data, err := image.DockerArchive(images)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// files returns the files of a tar by name.
func files(t testing.TB, data []byte) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// tarOf returns a tar of files; content that begins with -> makes a symbolic
// link.
func tarOf(t testing.TB, all map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(all[name])), Typeflag: tar.TypeReg}
		if target, ok := bytes.CutPrefix(all[name], []byte("-> ")); ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, string(target), 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write(all[name]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jsonOf(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// named returns the descriptor of an image with an annotation.
func named(img image.Image, annotation, name string) image.Descriptor {
	d := img.Descriptor()
	d.Annotations = map[string]string{annotation: name}
	return d
}

// layoutOf returns the files of an OCI layout with one entry in its index.
func layoutOf(entry image.Descriptor, img image.Image) map[string][]byte {
	return image.Layout([]image.Descriptor{entry}, img)
}

// read reads an archive and its images.
func read(t testing.TB, data []byte, as string) ([]*Image, error) {
	t.Helper()
	a, err := Read(t.Context(), TempSpace{Dir: t.TempDir()}, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	t.Cleanup(a.Close)
	return a.Images(here, as)
}

// pulled pulls an image from the registry that serves the images, and fails the
// test unless it equals the image that was archived.
func pulled(t *testing.T, images []*Image, ref string, want image.Image) {
	t.Helper()
	r := NewRegistry(images)
	s := httptest.NewServer(r)
	defer s.Close()
	name, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		t.Fatal(err)
	}
	repository := s.URL + "/v2/" + reference.Path(name)
	// get reads and verifies a manifest or blob.
	get := func(path string, d *descriptor) []byte {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, repository+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set(TokenHeader, r.Token)
		response, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s%s: %s: %v", ref, path, response.Status, err)
		}
		if digest := image.Digest(data); d != nil && digest != d.Digest ||
			response.Header.Get("Docker-Content-Digest") != digest {
			t.Errorf("%s%s: the content has the digest %s, the header says %s", ref, path, digest,
				response.Header.Get("Docker-Content-Digest"))
		}
		return data
	}
	var manifest document
	if err := json.Unmarshal(get("/manifests/"+name.(reference.Tagged).Tag(), nil), &manifest); err != nil {
		t.Fatal(err)
	}
	for _, d := range manifest.Manifests { // of an index
		if *d.Platform != here {
			continue
		}
		manifest = document{}
		if err := json.Unmarshal(get("/manifests/"+d.Digest, &d), &manifest); err != nil {
			t.Fatal(err)
		}
		break
	}
	if len(manifest.Layers) != 2 || manifest.Config == nil {
		t.Fatalf("%s: %+v", ref, manifest)
	}
	for _, d := range append(manifest.Layers, *manifest.Config) {
		get("/blobs/"+d.Digest, &d)
	}
	if manifest.Config.Digest != want.ID() {
		t.Errorf("%s is %s, want %s", ref, manifest.Config.Digest, want.ID())
	}
}

func TestDockerArchive(t *testing.T) {
	one, two := made(t, "amd64"), made(t, "amd64")
	data := dockerArchive(t, map[string]image.Image{"busybox:1": one, "registry.test:5000/a/b:2": two})
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(data)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	// Uncompressed layers, one of them a symbolic link as docker writes it.
	plain := files(t, data)
	var list []dockerEntry
	if err := json.Unmarshal(plain["manifest.json"], &list); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		for k, layer := range list[i].Layers {
			zipped, err := gzip.NewReader(bytes.NewReader(plain[layer]))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(zipped)
			if err != nil {
				t.Fatal(err)
			}
			delete(plain, layer)
			list[i].Layers[k] = fmt.Sprintf("%d-%d/layer.tar", i, k)
			plain[list[i].Layers[k]] = []byte("-> ../shared/" + fmt.Sprint(i, k))
			plain["shared/"+fmt.Sprint(i, k)] = text
		}
	}
	plain["manifest.json"] = jsonOf(t, list)
	for form, data := range map[string][]byte{"as it is": data, "gzip": zipped.Bytes(), "plain layers": tarOf(t, plain)} {
		t.Run(form, func(t *testing.T) {
			images, err := read(t, data, "")
			if err != nil || len(images) != 2 {
				t.Fatalf("%d images: %v", len(images), err)
			}
			pulled(t, images, "docker.io/library/busybox:1", one)
			pulled(t, images, "registry.test:5000/a/b:2", two)
		})
	}
}

func TestLayout(t *testing.T) {
	img, other, second := made(t, "amd64"), made(t, "s390x"), made(t, "amd64")
	variants := image.Index{other.Descriptor(), img.Descriptor(), second.Descriptor()}
	variants[2].Platform = &image.Platform{OS: "unknown", Architecture: "unknown"}
	raw := jsonOf(t, variants)
	root := image.Descriptor{MediaType: typeIndex, Digest: image.Digest(raw), Size: int64(len(raw)),
		Annotations: map[string]string{annotationName: "docker.io/library/web:1"}}
	many := layoutOf(root, img)
	many[blobPath(root.Digest)] = raw
	unspecified := named(img, annotationName, "web:1")
	unspecified.MediaType, unspecified.Platform = "", nil
	tags := layoutOf(named(img, annotationRef, "1"), img)
	tags["manifest.json"] = jsonOf(t, []dockerEntry{{Config: blobPath(img.ID()), RepoTags: []string{"web:1"}}})
	for name, c := range map[string]struct {
		files map[string][]byte
		as    string
	}{
		"named by containerd":      {files: layoutOf(named(img, annotationName, "docker.io/library/web:1"), img)},
		"named in full by the ref": {files: layoutOf(named(img, annotationRef, "web:1"), img)},
		"named by manifest.json":   {files: tags},
		"named by the caller":      {files: layoutOf(named(img, annotationRef, "latest"), img), as: "web:1"},
		"one of many platforms":    {files: many},
		"unspecified platform":     {files: layoutOf(unspecified, img)},
	} {
		t.Run(name, func(t *testing.T) {
			images, err := read(t, tarOf(t, c.files), c.as)
			if err != nil || len(images) != 1 || strings.Join(images[0].Names, " ") != "docker.io/library/web:1" ||
				images[0].ID != img.ID() {
				t.Fatalf("%+v: %v", images, err)
			}
			pulled(t, images, "docker.io/library/web:1", img)
			// In the form that ctr gets, it is still the same
			// image.
			var again bytes.Buffer
			if err := WriteLayout(&again, images); err != nil {
				t.Fatal(err)
			}
			back, err := Read(t.Context(), TempSpace{Dir: t.TempDir()}, &again)
			if err != nil {
				t.Fatal(err)
			}
			defer back.Close()
			e, _ := back.find("index.json")
			var doc document
			if err := back.decode(e, &doc); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, d := range doc.Manifests {
				names = append(names, d.Annotations[annotationName])
			}
			if want := "docker.io/library/web:1 docker.io/library/web@" +
				images[0].root.Digest; strings.Join(names, " ") != want {
				t.Errorf("written as %q, want %s", names, want)
			}
			same := &Image{root: doc.Manifests[0], blobs: map[string]blob{}}
			if err := back.collect(same, doc.Manifests[0], here); err != nil || same.ID != images[0].ID ||
				len(same.blobs) != len(images[0].blobs) {
				t.Errorf("after writing and reading again: %+v: %v", same, err)
			}
		})
	}
}

// An error states in one line what is wrong with an archive and what to do.
func TestBadArchives(t *testing.T) {
	img, other := made(t, "amd64"), made(t, "arm64")
	docker := dockerArchive(t, map[string]image.Image{"web:1": img})
	layer := func(all map[string][]byte) string {
		for name, data := range all {
			if bytes.HasPrefix(data, []byte("\x1f\x8b")) {
				return name
			}
		}
		t.Fatal("no layer")
		return ""
	}
	damaged := layoutOf(named(img, annotationName, "web:1"), img)
	name := layer(damaged)
	damaged[name] = bytes.Clone(damaged[name])
	damaged[name][20] ^= 1
	without := files(t, docker)
	delete(without, layer(without))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(docker)
	_ = z.Close()
	both := dockerArchive(t, map[string]image.Image{"web:1": img, "db:1": made(t, "amd64")})
	twoPlatforms := layoutOf(named(other, annotationName, "web:1"), other)
	for name, c := range map[string]struct {
		data []byte
		as   string
		want string
	}{
		"empty":              {want: "it is empty"},
		"text":               {data: []byte("apiVersion: v1\n"), want: "not a tar archive"},
		"long text":          {data: bytes.Repeat([]byte("apiVersion: v1\n"), 1000), want: "not a tar archive"},
		"cut short":          {data: docker[:len(docker)/2], want: "truncated"},
		"gzip cut short":     {data: zipped.Bytes()[:zipped.Len()/2], want: "truncated"},
		"gzip without end":   {data: zipped.Bytes()[:zipped.Len()-3], want: "truncated"},
		"damaged":            {data: tarOf(t, damaged), want: "is damaged; copy or create the archive again"},
		"a layer is missing": {data: tarOf(t, without), want: "is missing from the archive"},
		"other architecture": {data: dockerArchive(t, map[string]image.Image{"web:1": other}), want: "image web:1 of the " +
			"archive: it is for linux/arm64, and this machine is linux/amd64: create the archive for that platform"},
		"layout for another": {data: tarOf(t, twoPlatforms),
			want: "image web:1 of the archive: it is for linux/arm64, and this machine is linux/amd64"},
		"another tar":      {data: tarOf(t, map[string][]byte{"etc/passwd": []byte("root")}), want: "contains no images"},
		"zstd":             {data: []byte("\x28\xb5\x2f\xfd12345678"), want: "compressed by zstd: decompress it first"},
		"no name":          {data: tarOf(t, layoutOf(named(img, annotationRef, "latest"), img)), want: "set one with --name"},
		"a bad name":       {data: docker, as: "Web", want: "is not a valid reference"},
		"a digest as name": {data: docker, as: "web@sha256:" + strings.Repeat("0", 64), want: "has a digest"},
		"a name for two":   {data: both, as: "web:1", want: "contains 2 images"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, c.data, c.as)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// An archive that is cut at any offset yields an error or the whole image.
func TestTruncatedAnywhere(t *testing.T) {
	img := made(t, "amd64")
	data := dockerArchive(t, map[string]image.Image{"web:1": img})
	whole := 0
	for n := 0; n < len(data); n += 1 + rand.IntN(200) {
		images, err := read(t, data[:n], "")
		if err != nil {
			continue
		}
		whole++
		if len(images) != 1 || images[0].ID != img.ID() || len(images[0].blobs) != 4 {
			t.Errorf("cut at %d of %d: %+v", n, len(data), images)
		}
	}
	if whole > 20 {
		t.Errorf("%d cuts of %d bytes leave the archive whole", whole, len(data))
	}
}

func TestRegistryRequiresTheToken(t *testing.T) {
	images, err := read(t, dockerArchive(t, map[string]image.Image{"web:1": made(t, "amd64")}), "")
	if err != nil {
		t.Fatal(err)
	}
	r := NewRegistry(images)
	ask := func(method, path, token string) int {
		q := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		q.Header.Set(TokenHeader, token)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		return w.Code
	}
	for _, c := range []struct {
		method, path, token string
		want                int
	}{
		{"GET", "/v2/", "", 403},
		{"GET", "/v2/library/web/manifests/1", "guess", 403},
		{"GET", "/v2/", r.Token, 200},
		{"HEAD", "/v2/library/web/manifests/1", r.Token, 200},
		{"GET", "/v2/library/web/manifests/1?ns=docker.io", r.Token, 200},
		{"GET", "/v2/library/web/manifests/1?ns=quay.io", r.Token, 404},
		{"GET", "/v2/library/web/manifests/2", r.Token, 404},
		{"GET", "/v2/library/web/blobs/" + images[0].ID, r.Token, 200},
		{"GET", "/v2/library/web/blobs/sha256:00", r.Token, 404},
		{"PUT", "/v2/library/web/manifests/1", r.Token, 405},
		{"GET", "/etc/passwd", r.Token, 404},
	} {
		if got := ask(c.method, c.path, c.token); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.path, got, c.want)
		}
	}
}

// Reading leaves no temporary file behind, however it ends.
func TestReadLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller went")
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write(make([]byte, 100))
		cancel(gone)
		_ = w.Close()
	}()
	if _, err := Read(ctx, TempSpace{Dir: dir}, r); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	a, err := Read(t.Context(), TempSpace{Dir: dir},
		bytes.NewReader(dockerArchive(t, map[string]image.Image{"web:1": made(t, "amd64")})))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// bomb returns a gzipped archive whose single file has size bytes of zeros.
func bomb(t testing.TB, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "layer.tar", Mode: 0o644, Size: size, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for left := size; left > 0; left -= int64(len(zeros)) {
		if _, err := w.Write(zeros[:min(left, int64(len(zeros)))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// stored returns the space that a file uses.
func stored(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// A small archive that decompresses to more than the disk has leaves free what is reserved, and no more: also on a
// disk of which less than a tenth is free.
func TestArchiveLeavesSpaceFree(t *testing.T) {
	const mebi = 1 << 20
	for name, c := range map[string]struct {
		free, capacity int64
		reserved       func(int64) (int64, string)
		kept           int64
		words          string
	}{
		"share": {300 * mebi, 300 * mebi, func(capacity int64) (int64, string) { return capacity / 4, "evictionHard a<25%" },
			75 * mebi, "75 MiB stay free, because with less pods are evicted (evictionHard a<25%)"},
		"nearly full": {92*mebi + 200*mebi, 4000 * mebi,
			func(int64) (int64, string) { return 92 * mebi, "evictionHard a<92Mi" }, 92 * mebi, "(evictionHard a<92Mi)"},
		"no threshold": {300 * mebi, 1000 * mebi, func(int64) (int64, string) { return 0, "" },
			minReserved, "64 MiB stay free, for the files"},
		"low threshold": {300 * mebi, 10000 * mebi, func(int64) (int64, string) { return mebi, "evictionHard a<1Mi" },
			100 * mebi, "100 MiB stay free, for the files"},
		"nothing reserved": {300 * mebi, 1000 * mebi, nil, minReserved, "64 MiB stay free"},
	} {
		t.Run(name, func(t *testing.T) {
			most := int64(0)
			space := TempSpace{Dir: t.TempDir(), Reserved: c.reserved, usage: func(f *os.File) (int64, int64, error) {
				most = max(most, stored(f))
				return c.free - stored(f), c.capacity, nil
			}}
			data := bomb(t, 400*mebi)
			_, err := Read(t.Context(), space, bytes.NewReader(data))
			if !errors.Is(err, ErrNoSpace) || !strings.Contains(err.Error(), "images prune") ||
				!strings.Contains(err.Error(), c.words) {
				t.Errorf("an archive of %d bytes: %v, want %q", len(data), err, c.words)
			}
			if most > c.free-c.kept {
				t.Errorf("%d MiB of %d were used", most>>20, c.free>>20)
			}
			a, err := Read(t.Context(), space, bytes.NewReader(bomb(t, c.free-c.kept-2*spaceInterval)))
			if err != nil {
				t.Fatalf("an archive that fits: %v", err)
			}
			a.Close()
		})
	}
}

// An archive is abandoned when its client leaves, also while bytes are decompressed that
// have arrived long ago.
func TestArchiveEndsWithItsClient(t *testing.T) {
	ctx, leave := context.WithCancelCause(t.Context())
	gone := errors.New("the client has left")
	var used int64
	disk := func(f *os.File) (int64, int64, error) {
		used = stored(f)
		leave(gone)
		return 1 << 40, 1 << 40, nil
	}
	data := bomb(t, 200<<20)
	if len(data) > 1<<20 {
		t.Fatalf("the archive has %d bytes and is not read at once", len(data))
	}
	if _, err := Read(ctx, TempSpace{Dir: t.TempDir(), usage: disk}, bytes.NewReader(data)); !errors.Is(err, gone) ||
		used > 50<<20 {
		t.Errorf("%v after %d bytes", err, used)
	}
}

// Files whose holes are not in the archive, and endless names, are rejected.
func TestHostileArchivesAreRejected(t *testing.T) {
	var names bytes.Buffer
	z := gzip.NewWriter(&names)
	w := tar.NewWriter(z)
	for i := range 20 {
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprint(i, strings.Repeat("/x", 500_000)), Typeflag: tar.TypeReg,
			Format: tar.FormatPAX}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"sparse": {sparse(t, 1<<40), "sparse"},
		"names":  {names.Bytes(), "names of its files"},
	} {
		_, err := Read(t.Context(), TempSpace{Dir: t.TempDir()}, bytes.NewReader(c.data))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %d bytes: %v, want %q", name, len(c.data), err, c.want)
		}
	}
}

// sparse returns an archive with a file of size bytes in GNU's sparse format 0.1, whose only
// content is one byte at its beginning.
func sparse(t testing.TB, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	records := ""
	for _, record := range [][2]string{{"GNU.sparse.size", fmt.Sprint(size)}, {"GNU.sparse.numblocks", "1"},
		{"GNU.sparse.map", "0,1"}} {
		text := " " + record[0] + "=" + record[1] + "\n"
		n := len(text) + 2 // of two digits
		records += fmt.Sprint(n) + text
	}
	// The writer of archive/tar does not create the extended header of a sparse file.
	for _, h := range []tar.Header{{Name: "PaxHeaders/x", Typeflag: tar.TypeReg, Size: int64(len(records))},
		{Name: "layer.tar", Typeflag: tar.TypeReg, Size: 1}} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(records)[:h.Size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	const typeflag, checksum = 156, 148
	data[typeflag] = tar.TypeXHeader
	sum := 0
	for i, c := range data[:512] {
		if i >= checksum && i < checksum+8 {
			c = ' '
		}
		sum += int(c)
	}
	copy(data[checksum:], fmt.Sprintf("%06o\x00 ", sum))
	return data
}

// FuzzRead reads arbitrary archives and looks for images in them.
func FuzzRead(f *testing.F) {
	img := made(f, "amd64")
	f.Add(dockerArchive(f, map[string]image.Image{"example.com/a:1": img}))
	f.Add(tarOf(f, layoutOf(named(img, annotationName, "example.com/a:1"), img)))
	f.Add(sparse(f, 1<<40))
	f.Add(bomb(f, 1<<16))
	f.Add(tarOf(f, map[string][]byte{"index.json": []byte(`{"manifests":[{"digest":"x"}]}`),
		"manifest.json": []byte(`[{"Config":"../x","Layers":["a"]}]`)}))
	f.Fuzz(func(t *testing.T, data []byte) {
		disk := func(f *os.File) (int64, int64, error) {
			return minReserved + 64<<20 - stored(f), minReserved + 64<<20, nil
		}
		a, err := Read(t.Context(), TempSpace{Dir: t.TempDir(), usage: disk}, bytes.NewReader(data))
		if err != nil {
			return
		}
		defer a.Close()
		images, err := a.Images(Platform{OS: "linux", Architecture: "amd64"}, "")
		if err == nil {
			_ = WriteLayout(io.Discard, images)
		}
	})
}

// Open uses an uncompressed archive where it is, and knows its names before it has read it.
func TestOpenAndNames(t *testing.T) {
	img := made(t, "amd64")
	docker := dockerArchive(t, map[string]image.Image{"registry.test/web:1": img})
	tagged := img.Descriptor()
	tagged.Annotations = map[string]string{annotationName: "registry.test/web:1"}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(docker); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		data    []byte
		inPlace bool
	}{
		"docker": {docker, true}, "layout": {tarOf(t, image.Layout([]image.Descriptor{tagged}, img)), true},
		"compressed": {zipped.Bytes(), false},
	} {
		t.Run(name, func(t *testing.T) {
			path, dir := t.TempDir()+"/a.tar", t.TempDir()+"/load"
			if err := os.WriteFile(path, tc.data, 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if names := Names(t.Context(), file); tc.inPlace != slices.Equal(names, []string{"registry.test/web:1"}) {
				t.Errorf("names: %v", names)
			}
			a, err := Open(t.Context(), TempSpace{Dir: dir}, file)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if sum := sha256.Sum256(tc.data); a.Digest() != hex.EncodeToString(sum[:]) {
				t.Errorf("digest: %s", a.Digest())
			}
			images, err := a.Images(here, "")
			if err != nil || len(images) != 1 || images[0].ID != img.ID() || images[0].Names[0] != "registry.test/web:1" {
				t.Errorf("images: %+v %v", images, err)
			}
			if _, err := os.Stat(dir); tc.inPlace != os.IsNotExist(err) {
				t.Errorf("the directory for copies: %v", err)
			}
		})
	}
	broken, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broken.Write(docker[:len(docker)-4000]); err != nil {
		t.Fatal(err)
	}
	if _, err := broken.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if names := Names(t.Context(), broken); names != nil {
		t.Errorf("names of a truncated archive: %v", names)
	}
	if _, err := Open(t.Context(), TempSpace{Dir: t.TempDir()}, broken); err == nil ||
		!strings.Contains(err.Error(), "truncated") {
		t.Errorf("error: %v", err)
	}
}
