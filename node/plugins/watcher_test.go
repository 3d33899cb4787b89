package plugins_test

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	api "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/podstead/podstead/node/plugins"
)

// harness is a watcher that runs, and the handler of the type DevicePlugin.
type harness struct {
	t   *testing.T
	dir string

	mu sync.Mutex
	// registered are the names of the plugins in use, calls all that were registered.
	registered, calls []string
	endpoints         []string
	changed           chan struct{}
	// reject is the error of the next registrations.
	reject error
	// refused is how many results the next plugins do not accept.
	refused int32
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugins") // a short path: it has sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &harness{t: t, dir: filepath.Join(dir, "registry"), changed: make(chan struct{}, 100)}
}

// start runs a watcher until the function that it returns is called.
func (h *harness) start() (stop func()) {
	h.t.Helper()
	w := plugins.New(plugins.Options{Dir: h.dir, Handlers: map[string]plugins.Handler{api.DevicePlugin: h},
		Timeout: time.Second, RetryDelay: 10 * time.Millisecond})
	if err := w.Open(); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			h.t.Errorf("Run: %v", err)
		}
	})
	h.t.Cleanup(stop)
	return stop
}

func (h *harness) Register(_ context.Context, p plugins.Plugin) (func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.changed <- struct{}{} }()
	if h.reject != nil {
		return nil, h.reject
	}
	h.registered, h.calls, h.endpoints = append(h.registered, p.Name), append(h.calls, p.Name),
		append(h.endpoints, p.Endpoint)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		i := slices.Index(h.registered, p.Name)
		h.registered = slices.Delete(h.registered, i, i+1)
		h.changed <- struct{}{}
	}, nil
}

// await waits until these plugins are registered.
func (h *harness) await(want ...string) {
	h.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		h.mu.Lock()
		got := slices.Clone(h.registered)
		h.mu.Unlock()
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-h.changed:
		case <-deadline:
			h.t.Fatalf("registered %v, want %v", got, want)
		}
	}
}

// fakePlugin is a plugin that responds as the test reports, and has the results that it was told.
type fakePlugin struct {
	api.UnimplementedRegistrationServer
	info    *api.PluginInfo
	results chan *api.RegistrationStatus
	server  *grpc.Server
	// refused is how many results the plugin does not accept.
	refused atomic.Int32
}

func (p *fakePlugin) GetInfo(context.Context, *api.InfoRequest) (*api.PluginInfo, error) {
	return p.info, nil
}

func (p *fakePlugin) NotifyRegistrationStatus(_ context.Context,
	s *api.RegistrationStatus) (*api.RegistrationStatusResponse, error) {
	if p.refused.Add(-1) >= 0 {
		return nil, errors.New("not now")
	}
	p.results <- s
	return &api.RegistrationStatusResponse{}, nil
}

// plugin starts a plugin at a path below the directory.
func (h *harness) plugin(path string, info *api.PluginInfo) *fakePlugin {
	h.t.Helper()
	path = filepath.Join(h.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		h.t.Fatal(err)
	}
	p := &fakePlugin{info: info, results: make(chan *api.RegistrationStatus, 10), server: grpc.NewServer()}
	p.refused.Store(h.refused)
	api.RegisterRegistrationServer(p.server, p)
	go func() { _ = p.server.Serve(listener) }()
	h.t.Cleanup(p.server.Stop)
	return p
}

// result returns the result that the plugin gets next.
func (h *harness) result(p *fakePlugin) *api.RegistrationStatus {
	h.t.Helper()
	select {
	case r := <-p.results:
		return r
	case <-time.After(20 * time.Second):
		h.t.Fatal("the plugin was told no result")
		return nil
	}
}

func info(name string) *api.PluginInfo {
	return &api.PluginInfo{Type: api.DevicePlugin, Name: name, SupportedVersions: []string{"v1beta1"}}
}

// Plugins register that were there before and that come later, also in subdirectories, and are
// deregistered when their sockets are removed.
func TestRegister(t *testing.T) {
	h := newHarness(t)
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	early := h.plugin("early.sock", info("early"))
	h.start()
	if r := h.result(early); !r.GetPluginRegistered() || r.GetError() != "" {
		t.Errorf("result %v", r)
	}
	if h.endpoints[0] != filepath.Join(h.dir, "early.sock") {
		t.Errorf("the endpoint is %s, not the registration socket", h.endpoints[0])
	}
	withEndpoint := info("late")
	withEndpoint.Endpoint = "/run/late.sock"
	late := h.plugin("vendor/late.sock", withEndpoint)
	h.await("early", "late")
	h.result(late)
	if h.endpoints[1] != "/run/late.sock" {
		t.Errorf("the endpoint is %s", h.endpoints[1])
	}
	late.server.Stop() // removes the socket
	h.await("early")
	h.plugin("vendor/late.sock", withEndpoint)
	h.await("early", "late")
}

// A socket that replaces another one at once is another plugin.
func TestReplacedSocket(t *testing.T) {
	h := newHarness(t)
	h.start()
	h.plugin("a.sock", info("old"))
	h.await("old")
	h.plugin("b.tmp/.hidden", info("new"))
	if err := os.Rename(filepath.Join(h.dir, "b.tmp/.hidden"), filepath.Join(h.dir, "a.sock")); err != nil {
		t.Fatal(err)
	}
	h.await("new")
}

// A plugin that cannot be used gets the reason once and does not keep others from registering.
func TestRejected(t *testing.T) {
	h := newHarness(t)
	h.start()
	noName, relative := info(""), info("relative")
	relative.Endpoint = "relative.sock"
	for path, want := range map[*fakePlugin]string{
		h.plugin("csi.sock", &api.PluginInfo{Type: api.CSIPlugin,
			Name: "driver"}): `plugins of type "CSIPlugin" are not supported here, only DevicePlugin`,
		h.plugin("noname.sock", noName):     "the plugin has no name",
		h.plugin("relative.sock", relative): `endpoint "relative.sock" is not valid`,
	} {
		if r := h.result(path); r.GetPluginRegistered() || !strings.Contains(r.GetError(), want) {
			t.Errorf("result %v, want %q", r, want)
		}
	}
	h.mu.Lock()
	h.reject = errors.New("no room")
	h.mu.Unlock()
	rejected := h.plugin("rejected.sock", info("rejected"))
	if r := h.result(rejected); r.GetPluginRegistered() || r.GetError() != "no room" {
		t.Errorf("result %v", r)
	}
	h.mu.Lock()
	h.reject = nil
	h.mu.Unlock()
	h.plugin("good.sock", info("good"))
	h.await("good")
	if len(rejected.results) != 0 {
		t.Error("the plugin was asked again")
	}
}

// A plugin that does not accept the result of its registration is in use, and gets the result again until it
// does, or until its socket is removed.
func TestResultIsRepeated(t *testing.T) {
	h := newHarness(t)
	h.start()
	h.refused = 3
	p := h.plugin("a.sock", info("a"))
	if r := h.result(p); !r.GetPluginRegistered() {
		t.Errorf("result %v", r)
	}
	h.await("a")
	rejected := h.plugin("rejected.sock", info(""))
	if r := h.result(rejected); r.GetPluginRegistered() || r.GetError() == "" {
		t.Errorf("result %v", r)
	}
	h.refused = math.MaxInt32
	gone := h.plugin("b.sock", info("b"))
	h.await("a", "b")
	gone.server.Stop()
	h.await("a")
	h.mu.Lock()
	defer h.mu.Unlock()
	if want := []string{"a", "b"}; !slices.Equal(h.calls, want) {
		t.Errorf("registered %v, want %v", h.calls, want)
	}
}

// A socket on which nothing listens, and a plugin that does not respond, keep no other plugin from
// registering; the first one registers when it listens.
func TestSilentSockets(t *testing.T) {
	h := newHarness(t)
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("unix", filepath.Join(h.dir, "silent.sock")) // accepts and reports nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(h.dir, "stale.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	stop := h.start()
	h.plugin("good.sock", info("good"))
	h.await("good")
	stop() // although calls to the silent one are in flight
}

// The directory is created again after it was removed.
func TestDirectoryRemoved(t *testing.T) {
	h := newHarness(t)
	h.start()
	h.plugin("one.sock", info("one"))
	h.await("one")
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	h.await()
	// it appears without a notification
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(h.dir); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the directory was not created again")
		}
	}
	h.plugin("two.sock", info("two"))
	h.await("two")
}

// A plugin costs nothing after it has registered: the goroutines are those of a watcher without
// plugins, Run and the reader of inotify.
func TestIdleCost(t *testing.T) {
	h := newHarness(t)
	h.start()
	idle := func(want int) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for {
			n, stacks := goroutines()
			if n == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d goroutines, want %d:\n%s", n, want, stacks)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	idle(2)
	p := h.plugin("a.sock", info("a"))
	h.await("a")
	h.result(p)
	p.server.Stop()
	h.await()
	idle(2)
}

// goroutines returns the number of goroutines of the package and of the libraries that it uses, and
// the stacks of all. Those of tests that have ended can still be there, and go away.
func goroutines() (n int, stacks string) {
	buffer := make([]byte, 1<<20)
	stacks = string(buffer[:runtime.Stack(buffer, true)])
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(stack, "podstead/node/plugins.(") || strings.Contains(stack, "fsnotify.(") ||
			strings.Contains(stack, "google.golang.org/grpc") {
			n++
		}
	}
	return n, stacks
}
