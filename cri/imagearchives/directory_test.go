package imagearchives

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/archive"
	"github.com/podstead/podstead/cri/imageload"
	"github.com/podstead/podstead/test/image"
)

// fakeRuntime is a runtime and its loader.
type fakeRuntime struct {
	t *testing.T

	mu      sync.Mutex
	ids     map[string]string // by name
	loads   []string          // the names that were loaded, in order
	fail    error             // of the next load
	hold    chan struct{}     // blocks loads until it is closed, unless it is nil
	changed int
	events  []string
}

func (r *fakeRuntime) StoredImages(context.Context) (list []cri.StoredImage, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, id := range r.ids {
		list = append(list, cri.StoredImage{ID: id, Tags: []string{name}})
	}
	return list, nil
}

func (r *fakeRuntime) LoadImages(ctx context.Context, images []*archive.Image) (loaded []imageload.Image, err error) {
	r.mu.Lock()
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fail; err != nil {
		r.fail = nil
		return nil, err
	}
	for _, i := range images {
		for _, name := range i.Names {
			r.ids[name] = i.ID
			r.loads = append(r.loads, name)
			loaded = append(loaded, imageload.Image{Name: name, ID: i.ID})
		}
	}
	return loaded, nil
}

func (r *fakeRuntime) TempSpace() archive.TempSpace {
	return archive.TempSpace{Dir: filepath.Join(r.t.TempDir(), "load")}
}

func (r *fakeRuntime) Event(_ *v1.Pod, _, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, reason+": "+message)
}

func (r *fakeRuntime) loaded() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.loads)
}

func (r *fakeRuntime) id(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[name]
}

func (r *fakeRuntime) recorded(part string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.events, func(e string) bool { return strings.Contains(e, part) })
}

// fixture is a Directory that runs.
type fixture struct {
	*Directory
	t   *testing.T
	rt  *fakeRuntime
	dir string
	end func()
}

func start(t *testing.T) *fixture {
	f := &fixture{t: t, rt: &fakeRuntime{t: t, ids: map[string]string{}}, dir: filepath.Join(t.TempDir(), "archives")}
	f.run()
	return f
}

// run starts the daemon's part, again after end.
func (f *fixture) run() {
	f.Directory = New(Config{Dir: f.dir, File: filepath.Join(filepath.Dir(f.dir), "state.json"), Events: f.rt})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx, Runtime{Images: f.rt, Loader: f.rt, Loaded: func([]imageload.Image) {}, Changed: func() {
			f.rt.mu.Lock()
			defer f.rt.mu.Unlock()
			f.rt.changed++
		}})
	}()
	f.end = sync.OnceFunc(func() { cancel(); <-done })
	f.t.Cleanup(f.end)
	f.await("the directory", func() bool { _, err := os.Stat(f.dir); return err == nil })
}

// await waits until something holds.
func (f *fixture) await(what string, holds func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			f.t.Fatalf("timed out waiting for %s: %+v", what, f.Status())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitState waits for the state of an archive, with a text in its message.
func (f *fixture) awaitState(name string, state State, message string) {
	f.t.Helper()
	f.await(fmt.Sprintf("%s to be %s %q", name, state, message), func() bool {
		return slices.ContainsFunc(f.Status().Archives, func(a Archive) bool {
			return a.File == filepath.Join(f.dir, name) && a.State == state && strings.Contains(a.Message, message)
		})
	})
}

// made returns an archive with one image whose content is that of a word.
func made(t *testing.T, ref, word string) []byte {
	t.Helper()
	layer, err := image.Tar([]image.File{{Name: "word", Data: []byte(word)}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := image.DockerArchive(
		map[string]image.Image{ref: image.Image{Architecture: runtime.GOARCH}.WithLayer(image.PlainLayer(layer))})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (f *fixture) write(name string, data []byte) {
	f.t.Helper()
	tmp := filepath.Join(filepath.Dir(f.dir), "tmp")
	err := os.WriteFile(tmp, data, 0o600)
	if err == nil {
		err = os.Rename(tmp, filepath.Join(f.dir, name))
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
	f.await("the removal of "+name, func() bool {
		return !slices.ContainsFunc(f.Status().Archives, func(a Archive) bool { return filepath.Base(a.File) == name })
	})
}

const (
	web = "registry.test/web:1"
	db  = "registry.test/db:1"
)

func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchivesAreLoadedOnceAndKept(t *testing.T) {
	f := start(t)
	f.write("web.tar", made(t, web, "1"))
	f.write("db.tgz", compressed(t, made(t, db, "2")))
	f.awaitState("web.tar", Loaded, "")
	f.awaitState("db.tgz", Loaded, "")
	if names := f.Images(); !slices.Contains(names, web) || !slices.Contains(names, db) {
		t.Errorf("images to keep: %v", names)
	}
	if found, ok := f.Find(web, true); !ok || found.Loading || found.Archive != filepath.Join(f.dir, "web.tar") {
		t.Errorf("Find: %+v %v", found, ok)
	}
	if !f.rt.recorded("ImageArchiveLoaded: Loaded " + web) {
		t.Errorf("events: %v", f.rt.events)
	}
	f.end()
	if names := New(f.cfg).Images(); !slices.Contains(names, web) || !slices.Contains(names, db) {
		t.Errorf("images to keep before the first scan after a restart: %v", names)
	}
	f.run()
	f.awaitState("web.tar", Loaded, "")
	f.awaitState("db.tgz", Loaded, "")
	if loads := f.rt.loaded(); len(loads) != 2 {
		t.Errorf("loaded again after a restart: %v", loads)
	}
	f.remove("web.tar")
	if names := f.Images(); slices.Contains(names, web) || !slices.Contains(names, db) {
		t.Errorf("images to keep after the removal: %v", names)
	}
	if _, ok := f.Find(web, true); ok {
		t.Error("the image of a removed archive is found")
	}
}

// Without the file of states an archive is read again, and not loaded into a runtime that
// has its image.
func TestDamagedStateLoadsNothingAgain(t *testing.T) {
	f := start(t)
	f.write("web.tar", made(t, web, "1"))
	f.awaitState("web.tar", Loaded, "")
	f.end()
	if err := os.WriteFile(f.cfg.File, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.run()
	f.awaitState("web.tar", Loaded, "")
	if loads := f.rt.loaded(); len(loads) != 1 {
		t.Errorf("loads: %v", loads)
	}
}

// A pod that needs an image waits, is notified, and the archive of an image that
// the runtime has lost is loaded again.
func TestLostImageIsLoadedAgain(t *testing.T) {
	f := start(t)
	f.write("web.tar", made(t, web, "1"))
	f.awaitState("web.tar", Loaded, "")
	f.rt.mu.Lock()
	f.rt.ids, f.rt.hold = map[string]string{}, make(chan struct{})
	before := f.rt.changed
	f.rt.mu.Unlock()
	if found, ok := f.Find(web, false); !ok || !found.Loading {
		t.Fatalf("Find: %+v %v", found, ok)
	}
	f.awaitState("web.tar", Loading, "")
	if found, ok := f.Find(web, false); !ok || !found.Loading {
		t.Errorf("Find while it is loading: %+v %v", found, ok)
	}
	close(f.rt.hold)
	f.awaitState("web.tar", Loaded, "")
	if loads := f.rt.loaded(); len(loads) != 2 {
		t.Errorf("loads: %v", loads)
	}
	f.await("the notification of pods",
		func() bool { f.rt.mu.Lock(); defer f.rt.mu.Unlock(); return f.rt.changed > before })
	// A runtime that is empty after a restart of the daemon gets its images without a pod.
	f.end()
	f.rt.mu.Lock()
	f.rt.ids = map[string]string{}
	f.rt.mu.Unlock()
	f.run()
	f.await("the load after a restart", func() bool { return f.rt.id(web) != "" })
}

func TestHalfCopiedArchiveWaitsForItsWriter(t *testing.T) {
	f := start(t)
	data := made(t, web, "1")
	file, err := os.OpenFile(filepath.Join(f.dir, "web.tar"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(data[:len(data)/2]); err != nil {
		t.Fatal(err)
	}
	f.awaitState("web.tar", Incomplete, "still writing")
	if found, ok := f.Find(web, false); ok && found.Loading {
		t.Error("pods wait for an archive that is not complete")
	}
	if _, err := file.Write(data[len(data)/2:]); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	f.awaitState("web.tar", Loaded, "")
	if f.rt.recorded(reasonFailed) {
		t.Errorf("events: %v", f.rt.events)
	}
}

func TestBrokenArchivesAreRefused(t *testing.T) {
	f := start(t)
	data := made(t, web, "1")
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"truncated.tar":    {data[:len(data)-3000], "truncated"},
		"empty.tar":        {nil, "it is empty"},
		"text.tar":         {[]byte(strings.Repeat("text ", 500)), "not a tar archive"},
		"zstd.tar.zst":     {[]byte("\x28\xb5\x2f\xfd rest"), "decompress it first"},
		"damaged.tar":      {bytes.Replace(data, []byte("word"), []byte("wurd"), 1), "damaged"},
		"truncated.tar.gz": {func() []byte { d := compressed(t, data); return d[:len(d)-4] }(), "truncated"},
		"no-images-here.tar": {func() []byte { d, _ := image.Tar([]image.File{{Name: "a"}}); return d }(),
			"contains no images"},
	} {
		f.write(name, tc.data)
		f.awaitState(name, Failed, tc.want)
		if !f.rt.recorded(reasonFailed + ": Image archive " + filepath.Join(f.dir, name)) {
			t.Errorf("%s: no event: %v", name, f.rt.events)
		}
	}
	if loads := f.rt.loaded(); len(loads) != 0 {
		t.Errorf("loaded: %v", loads)
	}
	f.write("text.tar", data) // a correct one in its place
	f.awaitState("text.tar", Loaded, "")
	f.write("README", nil)
	f.await("the note about a file that is not read",
		func() bool { return slices.Equal(f.Status().Ignored, []string{"README"}) })
}

func TestChecksumFiles(t *testing.T) {
	data := made(t, web, "1")
	sum := sha256.Sum256(data)
	good, bad := hex.EncodeToString(sum[:]), strings.Repeat("0", 64)
	for name, tc := range map[string]struct{ file, content, want, fixed string }{
		"of the archive": {"web.tar.sha256", bad + "  web.tar\n", "web.tar.sha256 says 0000", good + "  web.tar\n"},
		"without a name": {"web.tar.sha256", bad, "web.tar.sha256 says 0000", good},
		"without a sum":  {"web.tar.sha256", "soon\n", "contains no SHA-256 sum", strings.ToUpper(good)},
		"of the directory": {"SHA256SUMS", strings.Repeat("1", 64) + "  other.tar\n" + bad + " *web.tar\n",
			"SHA256SUMS says 0000", good + " *./web.tar\n"},
		"in the BSD's form": {"SHA256SUMS", "SHA256 (web.tar) = " + bad + "\n", "SHA256SUMS says 0000",
			"SHA256 (web.tar) = " + good + "\n"},
		"not its own's line": {"SHA256SUMS", bad + "  web.tar\n", "SHA256SUMS says 0000", bad + "  other.tar\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.write(tc.file, []byte(tc.content))
			f.write("web.tar", data)
			f.awaitState("web.tar", Failed, tc.want)
			f.write(tc.file, []byte(tc.fixed))
			f.awaitState("web.tar", Loaded, "")
			f.write(tc.file, []byte(tc.content))
			f.awaitState("web.tar", Failed, tc.want)
			if loads := f.rt.loaded(); len(loads) != 1 {
				t.Errorf("loads: %v", loads)
			}
		})
	}
}

func TestOnlyRootMayChangeArchives(t *testing.T) {
	f := start(t)
	path := filepath.Join(f.dir, "web.tar")
	change := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f.write("web.tar", made(t, web, "1"))
	f.awaitState("web.tar", Loaded, "")
	change(os.Chmod(path, 0o622))
	f.awaitState("web.tar", Failed, "it has mode 0622; run chown root:root and chmod go-w on it")
	change(os.Chmod(path, 0o644))
	f.awaitState("web.tar", Loaded, "")
	change(os.Symlink(path, filepath.Join(f.dir, "link.tar")))
	f.awaitState("link.tar", Failed, "is a symbolic link")
	change(os.Chmod(f.dir, 0o777))
	f.await("the fault of the directory", func() bool {
		return strings.Contains(f.Status().Fault, "users other than root may change it: it has mode 0777; run chown")
	})
	f.write("db.tar", made(t, db, "2"))
	if found, ok := f.Find(web, false); !ok || found.Loading || found.Fault == "" {
		t.Errorf("Find: %+v %v", found, ok)
	}
	change(os.Chmod(f.dir, 0o755))
	f.awaitState("db.tar", Loaded, "")
	if fault := f.Status().Fault; fault != "" {
		t.Errorf("the fault remains: %s", fault)
	}
}

// Of two archives with an image of the same name the one that was modified last wins. When
// that is removed, the other one is loaded.
func TestNewestArchiveWins(t *testing.T) {
	f := start(t)
	f.write("b.tar", made(t, web, "old"))
	f.awaitState("b.tar", Loaded, "")
	old := f.rt.id(web)
	f.write("a.tar", made(t, web, "new"))
	f.awaitState("a.tar", Loaded, "")
	if f.rt.id(web) == old {
		t.Error("the newer archive was not loaded")
	}
	status := f.Status()
	if got := status.Archives[1].Superseded[web]; got != filepath.Join(f.dir, "a.tar") ||
		len(status.Archives[0].Superseded) != 0 {
		t.Errorf("superseded: %+v", status.Archives)
	}
	f.end()
	f.run()
	f.awaitState("a.tar", Loaded, "")
	f.awaitState("b.tar", Loaded, "")
	if loads := f.rt.loaded(); len(loads) != 2 {
		t.Errorf("loads: %v", loads)
	}
	f.remove("a.tar")
	f.await("the image of the other archive", func() bool { return f.rt.id(web) == old })
}

func TestArchiveIsRemovedAmidLoading(t *testing.T) {
	f := start(t)
	f.rt.mu.Lock()
	f.rt.hold = make(chan struct{})
	f.rt.mu.Unlock()
	f.write("web.tar", made(t, web, "1"))
	f.awaitState("web.tar", Loading, "")
	f.remove("web.tar")
	f.rt.mu.Lock()
	close(f.rt.hold)
	f.rt.hold = nil
	f.rt.mu.Unlock()
	f.write("db.tar", made(t, db, "2"))
	f.awaitState("db.tar", Loaded, "")
	if f.rt.id(web) != "" {
		t.Error("the removed archive was loaded")
	}
}

// A failure that may pass, as a full disk, is tried again; the archive is not at fault.
func TestTemporaryFailureIsRetried(t *testing.T) {
	f := start(t)
	f.rt.mu.Lock()
	f.rt.fail, f.rt.hold = errors.New("no space left on device"), make(chan struct{})
	f.rt.mu.Unlock()
	f.write("web.tar", made(t, web, "1"))
	f.awaitState("web.tar", Loading, "")
	close(f.rt.hold)
	f.awaitState("web.tar", Loaded, "")
	if !f.rt.recorded("no space left on device") {
		t.Errorf("events: %v", f.rt.events)
	}
}
