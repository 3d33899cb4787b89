package connect

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/internal/statefile"
)

// host is a host with two runtimes, of which the first listens on a usual socket.
type host struct {
	*testing.T
	usual, other             *critest.Fake
	usualSocket, otherSocket string
	cfg                      Config
}

var (
	errKubelet  = errors.New("a kubelet uses it")
	errNoBinary = errors.New("no containerd")
)

func newHost(t *testing.T) *host {
	dir := t.TempDir()
	h := &host{T: t, usual: critest.New(t), other: critest.New(t), usualSocket: filepath.Join(dir, "usual.sock"),
		otherSocket: filepath.Join(dir, "other.sock")}
	h.serve(h.usual, h.usualSocket)
	h.serve(h.other, h.otherSocket)
	h.cfg = Config{
		Dial:    cri.Options{Instance: critest.Instance, Log: slog.New(slog.DiscardHandler)},
		Private: private.Config{State: filepath.Join(dir, "private")},
		Record:  private.NewEndpointFile(dir, statefile.Disk{}), Installation: private.Installation{Sockets: []string{h.usualSocket}},
		Kubelet: func(string) (kubelet, err error) { return nil, nil },
		Binary:  func() (string, error) { return "", errNoBinary },
	}
	return h
}

func (h *host) serve(f *critest.Fake, socket string) {
	h.Helper()
	if err := f.ServeUnix(socket); err != nil {
		h.Fatal(err)
	}
}

// open opens the runtime that is set, "" to choose one.
func (h *host) open(endpoint string) (*Runtime, error) {
	h.Helper()
	cfg := h.cfg
	cfg.Dial.Endpoint = endpoint
	rt, err := Open(h.Context(), cfg)
	if err == nil {
		h.Cleanup(func() { _ = rt.Client.Close() })
	}
	return rt, err
}

// uses checks that the runtime at a socket was opened, and which endpoint is recorded.
func (h *host) uses(rt *Runtime, err error, socket, recorded string) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
	if got := rt.Client.Endpoint(); got != "unix://"+socket {
		h.Errorf("it uses %s, want %s", got, socket)
	}
	if got, err := h.cfg.Record.Load(); err != nil || strings.TrimPrefix(got, "unix://") != recorded {
		h.Errorf("recorded %q, %v, want %q", got, err, recorded)
	}
}

// The runtime of the settings comes before the one that was used before, and that before one on a usual socket.
func TestChoice(t *testing.T) {
	h := newHost(t)
	rt, err := h.open("")
	h.uses(rt, err, h.usualSocket, h.usualSocket)
	rt, err = h.open("unix://" + h.otherSocket)
	h.uses(rt, err, h.otherSocket, h.otherSocket)
	rt, err = h.open("")
	h.uses(rt, err, h.otherSocket, h.otherSocket)
}

// Without a runtime a private containerd is used.
func TestPrivate(t *testing.T) {
	h := newHost(t)
	h.cfg.Installation.Sockets = nil
	if _, err := h.open(""); !errors.Is(err, errNoBinary) {
		t.Error(err)
	}
}

// With a damaged record it is not known on which runtime the pods run: only the settings can name it.
func TestDamagedRecord(t *testing.T) {
	for _, damaged := range []string{"", "unix:///run/a.sock\nunix:///run/b.sock\n", "containerd"} {
		h := newHost(t)
		path := filepath.Join(filepath.Dir(h.usualSocket), "runtime-endpoint")
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := h.open(""); err == nil || !strings.Contains(err.Error(), path+" cannot be used") {
			t.Errorf("with %q: %v", damaged, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != damaged {
			t.Errorf("it was changed to %q, %v", got, err)
		}
		rt, err := h.open("unix://" + h.otherSocket)
		h.uses(rt, err, h.otherSocket, h.otherSocket)
		rt, err = h.open("")
		h.uses(rt, err, h.otherSocket, h.otherSocket)
	}
}

// A runtime that has not responded yet is recorded when it does: a mistyped endpoint is not kept.
func TestMistypedEndpoint(t *testing.T) {
	h := newHost(t)
	later := filepath.Join(filepath.Dir(h.otherSocket), "later.sock")
	rt, err := h.open("unix://" + later)
	h.uses(rt, err, later, "")
	h.serve(h.other, later)
	rt.Remember()
	h.uses(rt, err, later, later)
}

// Pods that still run on the previous runtime would run twice.
func TestPodsLeftBehind(t *testing.T) {
	h := newHost(t)
	rt, err := h.open("")
	h.uses(rt, err, h.usualSocket, h.usualSocket)
	h.usual.Put(critest.Pod{UID: "u1", Name: "web", Instance: critest.Instance, Containers: []string{"app"}})
	if _, err := h.open("unix://" + h.otherSocket); err == nil ||
		!strings.Contains(err.Error(), "1 pods of this podstead still run") {
		t.Errorf("with a pod on the previous runtime: %v", err)
	}
	h.usual.StopPod("u1")
	rt, err = h.open("unix://" + h.otherSocket)
	h.uses(rt, err, h.otherSocket, h.otherSocket)
}

// A kubelet on the same runtime kills what podstead starts: nothing is started there. Pods that run already are better
// off with a supervisor.
func TestKubelet(t *testing.T) {
	h := newHost(t)
	h.cfg.Kubelet = func(endpoint string) (kubelet, err error) {
		if endpoint == "unix://"+h.usualSocket {
			return errKubelet, nil
		}
		return nil, errors.New("cannot be read")
	}
	if _, err := h.open(""); !errors.Is(err, errKubelet) {
		t.Errorf("without pods: %v", err)
	}
	h.usual.Put(critest.Pod{UID: "u1", Name: "web", Instance: critest.Instance, Containers: []string{"app"}})
	rt, err := h.open("")
	h.uses(rt, err, h.usualSocket, h.usualSocket)
	if !errors.Is(rt.Kubelet, errKubelet) {
		t.Errorf("the conflict is not reported: %v", rt.Kubelet)
	}
	h.usual.StopPod("u1")
	rt, err = h.open("unix://" + h.otherSocket)
	h.uses(rt, err, h.otherSocket, h.otherSocket)
	if rt.Kubelet != nil {
		t.Error(rt.Kubelet)
	}
}
