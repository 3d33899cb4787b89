package testbed

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	containerimage "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image references that the registry serves. They are names that a user can
// pull in real life; the runtimes of a bed ask the registry on loopback for any host.
const (
	PauseImage   = "registry.k8s.io/pause:3.10"
	BusyboxImage = "docker.io/library/busybox:1.36"
)

// Registry is an image registry on loopback.
type Registry struct {
	addr   string
	server *http.Server
	served chan struct{}

	mu        sync.Mutex
	held      map[string]chan struct{} // by repository; closed when it is let go
	protected map[string][2]string     // user and password by repository
	broken    map[string]bool          // repositories whose layers break off
	waiting   map[string]int           // requests that wait, by repository
}

// StartRegistry serves the pause and busybox images. Close ends it.
func StartRegistry() (*Registry, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Registry{addr: l.Addr().String(), served: make(chan struct{}), held: map[string]chan struct{}{}, protected: map[string][2]string{}, broken: map[string]bool{}, waiting: map[string]int{}}
	next := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !r.wait(q) || !r.admit(w, q) {
			return
		}
		if r.breaks(q) {
			w = &breaking{ResponseWriter: w}
		}
		next.ServeHTTP(w, q)
	})}
	go func() {
		defer close(r.served)
		_ = r.server.Serve(l)
	}()
	if err := r.fill(); err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("cannot fill the registry: %w", err)
	}
	return r, nil
}

// Addr is the registry's host and port.
func (r *Registry) Addr() string { return r.addr }

// Hold lets every request for a repository wait, as a slow network does, until the
// returned function is called.
func (r *Registry) Hold(repository string) (release func()) {
	gate := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[repository] = gate
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.held, repository)
		close(gate)
	})
}

// wait waits while the request's repository is held; false says that the
// client went away meanwhile.
func (r *Registry) wait(q *http.Request) bool {
	r.mu.Lock()
	repository := repositoryOf(q)
	gate := r.held[repository]
	if gate == nil {
		r.mu.Unlock()
		return true
	}
	r.waiting[repository]++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting[repository]--
	}()
	select {
	case <-gate:
		return true
	case <-q.Context().Done():
		return false
	}
}

// Waiting is how many requests for a repository wait at this moment.
func (r *Registry) Waiting(repository string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[repository]
}

// Protect lets only a user with a password have a repository.
func (r *Registry) Protect(repository, user, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.protected[repository] = [2]string{user, password}
}

// admit answers for who may not have what is asked for; false says it did.
func (r *Registry) admit(w http.ResponseWriter, q *http.Request) bool {
	r.mu.Lock()
	want, protected := r.protected[repositoryOf(q)]
	r.mu.Unlock()
	user, password, _ := q.BasicAuth()
	if !protected || want == [2]string{user, password} || q.Method != http.MethodGet && q.Method != http.MethodHead {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="bed"`)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"log in first"}]}`)
	return false
}

// Break lets the layers of a repository break off half way, until repaired.
func (r *Registry) Break(repository string) (repair func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken[repository] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.broken, repository)
	}
}

func (r *Registry) breaks(q *http.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return q.Method == http.MethodGet && strings.Contains(q.URL.Path, "/blobs/") && r.broken[repositoryOf(q)]
}

// breaking is a connection that is cut after a part of a big answer.
type breaking struct {
	http.ResponseWriter
	written int
}

const breakAfter = 64 << 10

func (b *breaking) Write(p []byte) (int, error) {
	if left := breakAfter - b.written; len(p) > left {
		_, _ = b.ResponseWriter.Write(p[:left])
		_ = http.NewResponseController(b.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	b.written += len(p)
	return b.ResponseWriter.Write(p)
}

// repositoryOf is the repository that a request is about.
func repositoryOf(q *http.Request) string {
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	for _, part := range []string{"/manifests/", "/blobs/"} {
		path, _, _ = strings.Cut(path, part)
	}
	return path
}

// Close ends the registry and waits until it has ended.
func (r *Registry) Close() error {
	err := r.server.Close()
	<-r.served
	return err
}

// Push makes img available under ref, whatever host ref names.
func (r *Registry) Push(ref string, img containerimage.Image) error {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return err
	}
	local, err := name.ParseReference(r.addr+"/"+parsed.Context().RepositoryStr()+":"+parsed.Identifier(), name.Insecure)
	if err != nil {
		return err
	}
	return remote.Write(local, img)
}

func (r *Registry) fill() error {
	pause, err := pauseImage()
	if err != nil {
		return err
	}
	busybox, err := Busybox()
	if err != nil {
		return err
	}
	if err := r.Push(BusyboxImage, busybox); err != nil {
		return err
	}
	// The bed's own and those that runtimes use by default.
	for _, ref := range []string{PauseImage, "registry.k8s.io/pause:3.6", "registry.k8s.io/pause:3.10.2"} {
		if err := r.Push(ref, pause); err != nil {
			return err
		}
	}
	return nil
}

func pauseImage() (containerimage.Image, error) {
	bin, err := os.ReadFile(os.Getenv(pauseVar))
	if err != nil {
		return nil, err
	}
	return image([]entry{{name: "pause", data: bin}}, containerimage.Config{Entrypoint: []string{"/pause"}})
}

// Pause is the image that PauseImage names, to be had under other names.
func Pause() (containerimage.Image, error) { return pauseImage() }

// Busybox is the image that BusyboxImage names, to be pushed under other names: Debian's
// static busybox with a link for each applet, as the image of that name has.
func Busybox() (containerimage.Image, error) { return BusyboxWith("", nil) }

// BusyboxWith is Busybox with one more file, so that its layer is one that no
// runtime has yet.
func BusyboxWith(name string, data []byte) (containerimage.Image, error) {
	bin, err := os.ReadFile("/usr/bin/busybox")
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{name: "bin/"}, {name: "etc/"}, {name: "tmp/"}, {name: "var/"}, {name: "root/"}, {name: "usr/"}, {name: "usr/sbin/"},
		{name: "bin/busybox", data: bin},
		{name: "etc/passwd", data: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n")},
		{name: "etc/group", data: []byte("root:x:0:\nnogroup:x:65534:\n")},
	}
	for applet := range strings.FieldsSeq(applets) {
		entries = append(entries, entry{name: "bin/" + applet, link: "/bin/busybox"})
	}
	if name != "" {
		entries = append(entries, entry{name: name, data: data})
	}
	return image(entries, containerimage.Config{
		Cmd: []string{"sh"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	})
}

const applets = `sh ash cat cp cut date dd df echo env expr false find free grep head hostname httpd id ip kill
ln ls mkdir mktemp mount mv nc nohup od printf ps pwd rm rmdir sed seq sleep sort stat sync tail tar tee test
touch tr trap true uname uniq wc wget whoami xargs yes`

// entry is one file of an image layer: a directory if its name ends in a slash, a
// symbolic link if link is set, else an executable file.
type entry struct {
	name, link string
	data       []byte
}

// WithFiles is an image with a layer more, of files by their paths.
func WithFiles(img containerimage.Image, files map[string]string) (containerimage.Image, error) {
	var entries []entry
	for name, text := range files {
		entries = append(entries, entry{name: name, data: []byte(text)})
	}
	l, err := imageLayer(entries)
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(img, l)
}

func imageLayer(entries []entry) (containerimage.Layer, error) {
	layer, err := archive(entries)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer)), nil
	})
}

// archive is a tar archive of the entries.
func archive(entries []entry) ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o755, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
		switch {
		case e.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag = tar.TypeDir
			if e.name == "tmp/" {
				h.Mode = 0o1777
			}
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	return layer.Bytes(), w.Close()
}

func image(entries []entry, config containerimage.Config) (containerimage.Image, error) {
	l, err := imageLayer(entries)
	if err != nil {
		return nil, err
	}
	return imageOf(l, config)
}

// imageOf is an image of one layer for this machine.
func imageOf(l containerimage.Layer, config containerimage.Config) (containerimage.Image, error) {
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(img, file)
}
