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

// Image references that the registry serves. They exist on public registries too. The runtimes
// of a test bed send the pulls for all hosts to the registry on loopback.
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
	held      map[string]chan struct{} // by repository; closed on release
	protected map[string][2]string     // user and password by repository
	truncated map[string]bool          // repositories whose layers are cut off
	waiting   map[string]int           // requests that wait, by repository
}

// StartRegistry starts a registry with the pause and busybox images. Close stops it.
func StartRegistry() (*Registry, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Registry{addr: l.Addr().String(), served: make(chan struct{}), held: map[string]chan struct{}{}, protected: map[string][2]string{}, truncated: map[string]bool{}, waiting: map[string]int{}}
	next := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !r.waitWhileHeld(q) || !r.authorize(w, q) {
			return
		}
		if r.truncates(q) {
			w = &truncatingWriter{ResponseWriter: w}
		}
		next.ServeHTTP(w, q)
	})}
	go func() {
		defer close(r.served)
		_ = r.server.Serve(l)
	}()
	if err := r.pushImages(); err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("cannot push images to the registry: %w", err)
	}
	return r, nil
}

// ServeOn serves the registry also on an address of this network namespace, for machines in
// others. It returns host and port.
func (r *Registry) ServeOn(host string) (string, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	go func() { _ = r.server.Serve(l) }() // until the server is closed
	return l.Addr().String(), nil
}

// Addr returns the registry's host and port.
func (r *Registry) Addr() string { return r.addr }

// Hold delays every request for a repository, as a slow network does, until release is called.
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

// waitWhileHeld waits while the request's repository is held. It returns false if the client
// disconnected meanwhile.
func (r *Registry) waitWhileHeld(q *http.Request) bool {
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

// Waiting returns the number of requests for a repository that currently wait.
func (r *Registry) Waiting(repository string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[repository]
}

// Protect requires a user and password for a repository.
func (r *Registry) Protect(repository, user, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.protected[repository] = [2]string{user, password}
}

// authorize answers unauthorized requests with 401 and returns false for them.
func (r *Registry) authorize(w http.ResponseWriter, q *http.Request) bool {
	r.mu.Lock()
	want, protected := r.protected[repositoryOf(q)]
	r.mu.Unlock()
	user, password, _ := q.BasicAuth()
	if !protected || want == [2]string{user, password} || q.Method != http.MethodGet && q.Method != http.MethodHead {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="testbed"`)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
	return false
}

// TruncateLayers cuts the connection in the middle of each layer of a repository until repair
// is called.
func (r *Registry) TruncateLayers(repository string) (repair func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.truncated[repository] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.truncated, repository)
	}
}

func (r *Registry) truncates(q *http.Request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return q.Method == http.MethodGet && strings.Contains(q.URL.Path, "/blobs/") && r.truncated[repositoryOf(q)]
}

// truncatingWriter cuts the connection after the first part of a large response.
type truncatingWriter struct {
	http.ResponseWriter
	written int
}

const truncateAfter = 64 << 10

func (b *truncatingWriter) Write(p []byte) (int, error) {
	if left := truncateAfter - b.written; len(p) > left {
		_, _ = b.ResponseWriter.Write(p[:left])
		_ = http.NewResponseController(b.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	b.written += len(p)
	return b.ResponseWriter.Write(p)
}

// repositoryOf returns the repository of a request.
func repositoryOf(q *http.Request) string {
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	for _, part := range []string{"/manifests/", "/blobs/"} {
		path, _, _ = strings.Cut(path, part)
	}
	return path
}

// Close stops the registry and waits until it has stopped.
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

func (r *Registry) pushImages() error {
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
	// The image of this test bed and the default images of the runtimes.
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

// Pause returns the image of PauseImage, to be pushed under other names.
func Pause() (containerimage.Image, error) { return pauseImage() }

// Busybox returns the image of BusyboxImage, to be pushed under other names: Debian's static
// busybox with a link for each applet, as in the public image.
func Busybox() (containerimage.Image, error) { return BusyboxWith("", nil) }

// BusyboxWith returns Busybox with an additional file, so that no runtime has its layer yet.
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

// WithFiles returns an image with an additional layer of files, keyed by path.
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

// archive returns a tar archive of the entries.
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

// imageOf returns an image of one layer for this machine's platform.
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
