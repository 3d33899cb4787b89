package testbed

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/podstead/podstead/test/image"
)

// Image references that the registry serves. They exist on public registries too. The runtimes
// of a test bed send the pulls for all hosts to the registry on loopback.
const (
	PauseImage   = "registry.k8s.io/pause:3.10"
	BusyboxImage = "docker.io/library/busybox:1.36"
)

// Registry is an image registry on loopback.
type Registry struct {
	image.Registry
	addr   string
	server *http.Server
	served chan struct{}

	mu        sync.Mutex
	held      map[string]chan struct{} // by repository; closed on release
	protected map[string][2]string     // user and password by repository
	truncated map[string]bool          // repositories whose layers are cut off
	waiting   map[string]int           // requests that wait, by repository
	dying     map[string]bool          // repositories that die with the runtime's next request
	dead      map[string]bool          // repositories whose connections are cut
}

// StartRegistry starts a registry with the pause and busybox images. Close stops it.
func StartRegistry() (*Registry, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Registry{addr: l.Addr().String(), served: make(chan struct{}), held: map[string]chan struct{}{},
		protected: map[string][2]string{}, truncated: map[string]bool{}, waiting: map[string]int{}, dying: map[string]bool{},
		dead: map[string]bool{}}
	r.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.cutIfDead(q)
		if !r.waitWhileHeld(q) || !r.authorize(w, q) {
			return
		}
		if r.truncates(q) {
			w = &truncatingWriter{ResponseWriter: w}
		}
		r.Registry.ServeHTTP(w, q)
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

// authorize responds to unauthorized requests with 401 and returns false for them.
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

// DieAtPull serves podstead's own requests for a repository until the runtime pulls from it, and
// cuts every connection for the repository from then on, until revive is called.
func (r *Registry) DieAtPull(repository string) (revive func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dying[repository] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.dying, repository)
		delete(r.dead, repository)
	}
}

// cutIfDead cuts the connection of a request for a dead repository.
func (r *Registry) cutIfDead(q *http.Request) {
	name := repositoryOf(q)
	r.mu.Lock()
	if r.dying[name] && strings.HasPrefix(q.UserAgent(), "containerd/") {
		r.dead[name] = true
	}
	dead := r.dead[name]
	r.mu.Unlock()
	if dead {
		panic(http.ErrAbortHandler)
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

func (r *Registry) pushImages() error {
	pause, err := Pause()
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

// Pause returns the image of PauseImage, to be pushed under other names.
func Pause() (image.Image, error) { return PauseOf(runtime.GOARCH, os.Getenv(pauseVar)) }

// PauseOf returns Pause with a program for another architecture, in Go's words.
func PauseOf(arch, program string) (image.Image, error) {
	bin, err := os.ReadFile(program)
	if err != nil {
		return image.Image{}, err
	}
	return newImage(arch, []image.File{{Name: "pause", Data: bin}}, image.Config{Entrypoint: []string{"/pause"}})
}

// Busybox returns the image of BusyboxImage, to be pushed under other names: Debian's static
// busybox with a link for each applet, as in the public image.
func Busybox() (image.Image, error) { return BusyboxWith("", nil) }

// BusyboxWith returns Busybox with an additional file, so that no runtime has its layer yet.
func BusyboxWith(name string, data []byte) (image.Image, error) {
	var more []image.File
	if name != "" {
		more = append(more, image.File{Name: name, Data: data})
	}
	return BusyboxOf(runtime.GOARCH, "/usr/bin/busybox", more...)
}

// BusyboxOf returns Busybox with a program for another architecture, in Go's words.
func BusyboxOf(arch, program string, more ...image.File) (image.Image, error) {
	bin, err := os.ReadFile(program)
	if err != nil {
		return image.Image{}, err
	}
	files := []image.File{
		{Name: "bin/"}, {Name: "etc/"}, {Name: "tmp/", Mode: 0o1777}, {Name: "var/"}, {Name: "root/"}, {Name: "usr/"},
		{Name: "usr/sbin/"},
		{Name: "bin/busybox", Data: bin},
		{Name: "etc/passwd", Data: []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n")},
		{Name: "etc/group", Data: []byte("root:x:0:\nnogroup:x:65534:\n")},
	}
	for applet := range strings.FieldsSeq(applets) {
		files = append(files, image.File{Name: "bin/" + applet, Link: "/bin/busybox"})
	}
	return newImage(arch, append(files, more...), image.Config{
		Cmd: []string{"sh"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	})
}

const applets = `sh ash cat cp cut date dd df echo env expr false find free grep head hostname httpd id ip kill
ln ls mkdir mktemp mount mv nc nohup od printf ps pwd rm rmdir sed seq sleep sort stat sync tail tar tee test
touch tr trap true uname uniq wc wget whoami xargs yes`

// WithFiles returns an image with an additional layer of files, keyed by path.
func WithFiles(img image.Image, files map[string]string) (image.Image, error) {
	var list []image.File
	for name, text := range files {
		list = append(list, image.File{Name: name, Data: []byte(text)})
	}
	l, err := gzipLayer(list)
	if err != nil {
		return image.Image{}, err
	}
	return img.WithLayer(l), nil
}

func gzipLayer(files []image.File) (image.Layer, error) {
	archive, err := image.Tar(files)
	if err != nil {
		return image.Layer{}, err
	}
	return image.GzipLayer(archive)
}

func newImage(arch string, files []image.File, config image.Config) (image.Image, error) {
	l, err := gzipLayer(files)
	if err != nil {
		return image.Image{}, err
	}
	img := imageOf(l, config)
	img.Architecture = arch
	return img, nil
}

// imageOf returns an image of one layer for this machine's platform.
func imageOf(l image.Layer, config image.Config) image.Image {
	return image.Image{Architecture: runtime.GOARCH, Config: config, Layers: []image.Layer{l}}
}
