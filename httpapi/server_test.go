package httpapi

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/api"
)

type fakeSources struct{ unhealthy, brokenLog error }

func (f fakeSources) Pods() []*v1.Pod {
	return []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-n1", Namespace: "default"}}}
}
func (f fakeSources) Manifests() []api.ManifestSource {
	return []api.ManifestSource{{Source: "file", Location: "/etc/pods",
		Units: []api.ManifestUnit{{Name: "/etc/pods/web.yaml", Faults: []string{"x"}}}}}
}
func (f fakeSources) Objects() []api.ManifestObject {
	return []api.ManifestObject{{Kind: "Secret", Namespace: "default", Name: "login", Source: "file",
		Manifest: "/etc/pods/web.yaml", Revision: "k-1", Keys: []string{"password"}, Type: "Opaque"}}
}
func (f fakeSources) SyncLoopHealthy() error { return f.unhealthy }

func (f fakeSources) sources() Sources {
	return Sources{Pods: f, Manifests: f, Objects: f,
		Health: []HealthCheck{{"log", func() error { return f.brokenLog }}, {"syncloop", f.SyncLoopHealthy}},
		Kube:   http.NotFoundHandler()}
}

// start serves on a socket and a health port and returns a client for each.
func start(t *testing.T, f fakeSources) (socket string, overSocket, overTCP func(path string) (int, string)) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "run", "podstead.sock")
	s := New(Config{Socket: socket, HealthAddress: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}, f.sources())
	ctx, cancel := context.WithCancel(t.Context())
	l, err := s.Listen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve returned %v after its context ended", err)
		}
	})
	unix := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	t.Cleanup(unix.CloseIdleConnections)
	get := func(c *http.Client, base string) func(string) (int, string) {
		return func(path string) (int, string) {
			resp, err := c.Get(base + path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(b)
		}
	}
	tcp := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(tcp.CloseIdleConnections)
	return socket, get(unix, "http://podstead"), get(tcp, "http://"+l.plainWith("health port").Addr().String())
}

func TestPodsIsAPodList(t *testing.T) {
	_, get, _ := start(t, fakeSources{})
	code, body := get("/pods")
	var list v1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != 200 {
		t.Fatalf("GET /pods = %d %q: %v", code, body, err)
	}
	if list.Kind != "PodList" || list.APIVersion != "v1" || len(list.Items) != 1 || list.Items[0].Name != "web-n1" {
		t.Errorf("GET /pods = %s", body)
	}
}

func TestHealthPortServesHealthOnly(t *testing.T) {
	_, _, tcp := start(t, fakeSources{})
	for _, path := range []string{"/healthz", "/healthz/ping", "/healthz/log", "/healthz/syncloop", "/livez",
		"/livez/ping", "/readyz", "/readyz/syncloop"} {
		if code, body := tcp(path); code != 200 || body != "ok" {
			t.Errorf("GET %s = %d %q, want 200 ok", path, code, body)
		}
	}
	if code, body := tcp("/healthz?verbose"); code != 200 || !strings.Contains(body, "[+]syncloop ok") {
		t.Errorf("GET /healthz?verbose = %d %q", code, body)
	}
	if code, body := tcp("/readyz?verbose"); code != 200 || !strings.HasSuffix(body, "\nreadyz check passed\n") {
		t.Errorf("GET /readyz?verbose = %d %q", code, body)
	}
	for _, path := range []string{"/pods", "/podstead/v1/manifests", "/podstead/v1/objects", "/healthz/../pods"} {
		if code, body := tcp(path); code != http.StatusNotFound {
			t.Errorf("GET %s on the health port = %d %q, want 404", path, code, body)
		}
	}
}

func TestUnhealthyLoopIs500(t *testing.T) {
	_, get, tcp := start(t, fakeSources{unhealthy: errors.New("not entered for 10m")})
	if code, body := tcp("/healthz"); code != 500 || !strings.Contains(body, "not entered for 10m") {
		t.Errorf("GET /healthz = %d %q", code, body)
	}
	if code, body := get("/healthz/log"); code != 200 || body != "ok" {
		t.Errorf("GET /healthz/log = %d %q: the log is well", code, body)
	}
	if code, body := tcp("/healthz/syncloop?verbose"); code != 500 ||
		body != "[-]syncloop failed: not entered for 10m\nhealthz check failed\n" {
		t.Errorf("GET /healthz/syncloop?verbose = %d %q", code, body)
	}
	_, broken, _ := start(t, fakeSources{brokenLog: errors.New("blocked for 1m")})
	want := "[+]ping ok\n[-]log failed: blocked for 1m\n[+]syncloop ok\n"
	if code, body := broken("/healthz?verbose"); code != 500 || !strings.HasPrefix(body, want) ||
		!strings.HasSuffix(body, "healthz check failed\n") {
		t.Errorf("GET /healthz?verbose = %d %q", code, body)
	}
	if code, body := broken("/healthz/log"); code != 500 || body != "log: blocked for 1m\n" {
		t.Errorf("GET /healthz/log = %d %q", code, body)
	}
	if code, _ := get("/healthz/ping"); code != 200 {
		t.Errorf("GET /healthz/ping = %d, want 200: the server itself is well", code)
	}
}

func TestSocketModeIsOwnerAndGroup(t *testing.T) {
	socket, _, _ := start(t, fakeSources{})
	fi, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o660 {
		t.Errorf("socket mode is %o, want 660", fi.Mode().Perm())
	}
}

func TestSocketInUseIsAnErrorAndStaleOneIsReplaced(t *testing.T) {
	socket, _, _ := start(t, fakeSources{})
	if _, err := listenUnix(t.Context(), socket); err == nil ||
		!strings.Contains(err.Error(), "another podstead is running") {
		t.Errorf("a second listener on a living socket: %v", err)
	}
	dead := filepath.Join(t.TempDir(), "dead.sock")
	ln, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = ln.Close()
	again, err := listenUnix(t.Context(), dead)
	if err != nil {
		t.Fatalf("a dead socket was not replaced: %v", err)
	}
	_ = again.Close()
	if _, err := os.Lstat(dead); !os.IsNotExist(err) {
		t.Errorf("a closed listener left its socket behind: %v", err)
	}
	if err := os.WriteFile(dead, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(t.Context(), dead); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a plain file in the socket's place: %v", err)
	}
	if b, _ := os.ReadFile(dead); string(b) != "precious" {
		t.Error("a plain file in the socket's place was touched")
	}
}

// plainWith returns the open listener whose description begins with a text, nil if there is
// none.
func (l *Listeners) plainWith(what string) net.Listener {
	for _, p := range l.plain {
		if strings.HasPrefix(p.what, what) {
			return p.ln
		}
	}
	return nil
}

// Ports that other programs have do not end the daemon. Each is reported with its flag, and
// opened when it is free.
func TestTakenPortsAreOpenedLater(t *testing.T) {
	taken := map[string]net.Listener{}
	for _, flag := range []string{"--healthz-port", "--read-only-port", "--port"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		taken[flag] = ln
	}
	type report struct {
		what string
		err  error
	}
	reports := make(chan report, 100)
	s := New(Config{
		HealthAddress: taken["--healthz-port"].Addr().String(), ReadOnlyAddress: taken["--read-only-port"].Addr().String(),
		Remote:     Remote{Address: taken["--port"].Addr().String(), Dir: filepath.Join(t.TempDir(), "pki"), Node: "n1"},
		OnListener: func(what string, err error) { reports <- report{what, err} },
		Log:        slog.New(slog.DiscardHandler),
	}, Sources{Kube: http.NotFoundHandler()})
	l, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	for range taken {
		r := <-reports
		if r.err == nil {
			t.Fatalf("%s was opened", r.what)
		}
		named := false
		for flag, ln := range taken {
			if strings.Contains(r.err.Error(), flag+",") && strings.Contains(r.err.Error(), ln.Addr().String()) {
				named = true
			}
		}
		if !named {
			t.Errorf("the error does not name the flag and the address: %v", r.err)
		}
	}
	for _, ln := range taken {
		_ = ln.Close()
	}
	for range taken {
		if r := <-reports; r.err != nil {
			t.Errorf("%s: %v", r.what, r.err)
		}
	}
	for _, flag := range []string{"--healthz-port", "--read-only-port"} {
		r, err := http.Get("http://" + taken[flag].Addr().String() + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s answers %s", flag, r.Status)
		}
	}
	conn, err := tls.Dial("tcp", taken["--port"].Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

// The verbose response reports how long ago each source was read, and why it cannot be.
func TestHealthzShowsLastRead(t *testing.T) {
	list := manifestList{{Source: "file", Time: time.Now().Add(-90 * time.Second), Fault: "/etc/pods: has not answered"},
		{Source: "http"}, {Source: "api"}}
	w := httptest.NewRecorder()
	healthz("healthz", list, ping)(w, httptest.NewRequest(http.MethodGet, "/healthz?verbose", nil))
	if got := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(got, "[+]manifests of source file read "+
		"1m30s ago: /etc/pods: has not answered\n[+]manifests of source http not read yet\nhealthz check passed\n") {
		t.Errorf("%d %q", w.Code, got)
	}
}

type manifestList []api.ManifestSource

func (l manifestList) Manifests() []api.ManifestSource { return l }
