package httpapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/pki"
	"github.com/podstead/podstead/internal/statefile"
)

const (
	readerToken = "reader-0123456789abcdef"
	execToken   = "exec-0123456789abcdef"
	adminToken  = "admin-0123456789abcdef"
	tokenLines  = readerToken + ",ann,read\n" + execToken + ",bob,exec\n" + adminToken + ",eve,admin\n"
)

// testServer is a server with a directory that outlives it.
type testServer struct {
	*testing.T
	dir        string
	cfg        Config
	src        Sources
	server     *Server
	tlsAddress string // the address of the port of the flags
	// readOnly is that of the port without TLS, if it is open.
	readOnlyAddress string
	stop            func()
	// lowered replaces the limits of TLS listeners.
	lowered *connectionLimits
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	dir := t.TempDir()
	b := &testServer{T: t, dir: dir, src: fakeSources{}.sources(), cfg: Config{
		Socket: filepath.Join(dir, "api.sock"), Log: slog.New(slog.DiscardHandler),
		Remote: Remote{Dir: filepath.Join(dir, "pki"), Node: "edge"},
	}}
	return b
}

// withTokens opens a port with token authentication.
func (b *testServer) withTokens() *testServer {
	b.cfg.Remote.Address = "127.0.0.1:0"
	b.cfg.Remote.TokenFile = filepath.Join(b.dir, "tokens")
	b.writeTokens(tokenLines)
	return b
}

func (b *testServer) writeTokens(text string) {
	b.Helper()
	if err := (statefile.Disk{}).Replace(b.cfg.Remote.TokenFile, []byte(text), 0o600, statefile.Atomic); err != nil {
		b.Fatal(err)
	}
}

// saveLoopback saves the address of kubeconfigs as a previous run of the daemon does.
func (b *testServer) saveLoopback(address string) {
	b.Helper()
	if err := os.MkdirAll(b.cfg.Remote.Dir, 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.cfg.Remote.Dir, loopbackFile), []byte(address+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
}

func (b *testServer) start() *testServer {
	b.Helper()
	b.server = New(b.cfg, b.src)
	if b.lowered != nil {
		b.server.tlsLimits = *b.lowered
	}
	b.server.remote.preferredPort = 0 // other tests on this host may use the default one
	ctx, cancel := context.WithCancel(context.Background())
	l, err := b.server.Listen(ctx)
	if err != nil {
		cancel()
		b.Fatal(err)
	}
	if b.server.remote.mainAddr != nil {
		b.tlsAddress = b.server.remote.mainAddr.String()
	}
	if ln := l.plainWith("read-only port"); ln != nil {
		b.readOnlyAddress = ln.Addr().String()
	}
	done := make(chan error, 1)
	go func() { done <- b.server.Serve(ctx, l) }()
	ended := false
	b.stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			b.Errorf("Serve returned %v after its context ended", err)
		}
	}
	b.Cleanup(b.stop)
	return b
}

// client returns a TLS client that trusts the server.
func (b *testServer) client(certs ...tls.Certificate) *http.Client {
	b.Helper()
	pem, err := os.ReadFile(filepath.Join(b.cfg.Remote.Dir, "servers.crt"))
	if err != nil {
		b.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	c := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs},
			ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	b.Cleanup(c.CloseIdleConnections)
	return c
}

// request sends a request, with a token unless it is empty.
func (b *testServer) request(c *http.Client, method, url, token string) (int, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// kubeconfig issues a kubeconfig and returns a client with it.
func (b *testServer) kubeconfig(role access.Role, lasts time.Duration) (*api.Kubeconfig, *http.Client) {
	b.Helper()
	k, err := b.server.remote.issueKubeconfig(b.Context(), role, lasts)
	if err != nil {
		b.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(k.ClientCertificate), []byte(k.ClientKey))
	if err != nil {
		b.Fatal(err)
	}
	return k, b.client(pair)
}

// TestUnauthenticatedRequestsAreRejected requests every route of the table without valid credentials.
func TestUnauthenticatedRequestsAreRejected(t *testing.T) {
	b := newTestServer(t).withTokens().start()
	c := b.client()
	for _, token := range []string{"", "wrong-0123456789abcdef", readerToken[:len(readerToken)-1]} {
		for _, route := range b.server.routes {
			method := route.Method
			if method == "" {
				method = "GET"
			}
			path := strings.NewReplacer("{", "", "}", "").Replace(route.Path)
			code, body := b.request(c, method, "https://"+b.tlsAddress+path, token)
			if code != http.StatusUnauthorized || token != "" && strings.Contains(body, token) {
				t.Errorf("%s %s with token %q = %d %q, want 401", method, path, token, code, body)
			}
		}
	}
}

func TestTokenRoleIsCheckedPerRequest(t *testing.T) {
	b := newTestServer(t).withTokens().start()
	c := b.client()
	want := func(method, path, token string, want int) {
		t.Helper()
		if code, body := b.request(c, method, "https://"+b.tlsAddress+path, token); code != want {
			t.Errorf("%s %s = %d %q, want %d", method, path, code, body, want)
		}
	}
	want("GET", "/pods", readerToken, 200)
	want("POST", "/podstead/v1/images/prune", readerToken, 403)
	want("POST", "/podstead/v1/images/prune", execToken, 403)
	want("POST", "/podstead/v1/images/prune?dryRun=x", adminToken, 400) // authorized
	// Kubeconfigs are issued only over the socket, not for a token.
	want("POST", "/podstead/v1/kubeconfig", adminToken, 403)
	// The role is checked with each request, also on the same connection.
	b.writeTokens(strings.Replace(tokenLines, "eve,admin", "eve,read", 1))
	want("POST", "/podstead/v1/images/prune?dryRun=x", adminToken, 403)
	want("GET", "/pods", adminToken, 200)
	b.writeTokens(readerToken + ",ann,read\n")
	want("GET", "/pods", adminToken, 401)
	want("GET", "/pods", readerToken, 200)
}

func TestOnlyAdminsSeeSecretKeys(t *testing.T) {
	b := newTestServer(t).withTokens().start()
	for token, want := range map[string]bool{readerToken: false, execToken: false, adminToken: true} {
		code, body := b.request(b.client(), "GET", "https://"+b.tlsAddress+"/podstead/v1/objects", token)
		if code != 200 || !strings.Contains(body, "login") || strings.Contains(body, "password") != want {
			t.Errorf("%s: %d %s, want the keys: %v", token, code, body, want)
		}
	}
}

func TestInvalidTokenFileFailsListen(t *testing.T) {
	b := newTestServer(t).withTokens()
	b.writeTokens("x,ann,read\n")
	if _, err := New(b.cfg, b.src).Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "--token-auth-file") {
		t.Errorf("Listen = %v", err)
	}
}

func TestKubeconfigPortSurvivesRestart(t *testing.T) {
	b := newTestServer(t).start()
	if b.server.remote.loopback != nil {
		t.Fatal("a port is open before a kubeconfig was requested")
	}
	if _, err := os.Stat(b.cfg.Remote.Dir); !os.IsNotExist(err) {
		t.Errorf("keys were created before a kubeconfig was requested: %v", err)
	}
	k, reader := b.kubeconfig(access.RoleRead, time.Hour)
	if host, _, err := net.SplitHostPort(strings.TrimPrefix(k.Server, "https://")); err != nil || host != "127.0.0.1" {
		t.Errorf("the server is %s", k.Server)
	}
	again, admin := b.kubeconfig(access.RoleAdmin, time.Hour)
	if again.Server != k.Server {
		t.Errorf("the second one uses %s, the first %s", again.Server, k.Server)
	}
	check := func(c *http.Client, method, path string, want int) {
		t.Helper()
		if code, body := b.request(c, method, k.Server+path, ""); code != want {
			t.Errorf("%s %s = %d %q, want %d", method, path, code, body, want)
		}
	}
	check(reader, "GET", "/pods", 200)
	check(reader, "POST", "/podstead/v1/images/prune?dryRun=x", 403)
	check(admin, "POST", "/podstead/v1/images/prune?dryRun=x", 400)
	check(b.client(), "GET", "/pods", 401)
	b.stop()
	b.start()
	// A connection of another test may use the port in the meantime.
	for begun := time.Now(); b.server.remote.loopback == nil &&
		time.Since(begun) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
		b.stop()
		b.start()
	}
	check(reader, "GET", "/pods", 200)
	// Revocation takes effect at once, also on open connections.
	if err := b.server.remote.revokeKubeconfigs(); err != nil {
		t.Fatal(err)
	}
	if resp, err := reader.Get(k.Server + "/pods"); err == nil {
		resp.Body.Close()
		if resp.StatusCode != 401 {
			t.Errorf("after it was revoked: %s", resp.Status)
		}
	}
	next, _ := b.kubeconfig(access.RoleRead, time.Hour)
	if code, body := b.request(reader, "GET", next.Server+"/pods", ""); code != 401 ||
		!strings.Contains(body, "podstead kubeconfig creates a new one") {
		t.Errorf("a revoked one on the new port = %d %q", code, body)
	}
	b.stop()
	if err := New(b.cfg, b.src).remote.revokeKubeconfigs(); err != nil {
		t.Fatal(err)
	}
	b.start()
	if b.server.remote.loopback != nil {
		t.Error("the port is open again though every kubeconfig was revoked")
	}
}

// TestRevokedWatchesEnd has a watch of a kubeconfig and one of a token on the
// port of the flags, which stays open.
func TestRevocationEndsWatches(t *testing.T) {
	b := newTestServer(t).withTokens()
	ended := make(chan string, 2)
	b.src.Kube = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		ended <- access.CallerFrom(r.Context()).User
	})
	b.start()
	k, c := b.kubeconfig(access.RoleRead, time.Hour)
	for client, token := range map[*http.Client]string{c: "", b.client(): readerToken} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", k.Server+"/api/v1/pods?watch=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
	}
	if err := b.server.remote.revokeKubeconfigs(); err != nil {
		t.Fatal(err)
	}
	if who := <-ended; who != "podstead-read" {
		t.Errorf("the watch of %q ended", who)
	}
	select {
	case who := <-ended:
		t.Errorf("the watch of %q ended too", who)
	case <-time.After(50 * time.Millisecond):
	}
	known := func() int {
		b.server.remote.requests.mu.Lock()
		defer b.server.remote.requests.mu.Unlock()
		return len(b.server.remote.requests.all)
	}
	// A request is forgotten after its handler has returned.
	for begun := time.Now(); known() > 1; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 3*time.Minute {
			t.Fatalf("%d requests are still known", known())
		}
	}
}

func TestKubeconfigUsesAnotherPortIfSavedOneIsInUse(t *testing.T) {
	b := newTestServer(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	b.saveLoopback(taken.Addr().String())
	b.start() // logs a warning
	k, c := b.kubeconfig(access.RoleRead, time.Hour)
	if k.Server == "https://"+taken.Addr().String() {
		t.Fatal("it uses a port of another process")
	}
	if code, body := b.request(c, "GET", k.Server+"/pods", ""); code != 200 {
		t.Errorf("GET /pods = %d %q", code, body)
	}
}

// Another program may have the port of kubeconfigs while the daemon restarts: they work again when it
// is free.
func TestKubeconfigPortThatIsInUseOpensLater(t *testing.T) {
	b := newTestServer(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	b.saveLoopback(address)
	reported := make(chan error, 10)
	b.cfg.OnListener = func(_ string, err error) { reported <- err }
	b.start()
	if err := <-reported; !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("reported %v", err)
	}
	taken.Close()
	if err := <-reported; err != nil {
		t.Fatalf("reported %v", err)
	}
	if code, body := b.request(b.client(), "GET", "https://"+address+"/pods", ""); code != 401 {
		t.Errorf("GET /pods = %d %q", code, body)
	}
}

// TestNoPortOutlivesTheServer stops the server right after ports were opened, before it serves them. The
// order is random, so the test repeats this.
func TestNoListenerOutlivesServer(t *testing.T) {
	b := newTestServer(t).withTokens()
	b.cfg.Remote.Address = "127.0.0.2:0" // no port for kubeconfigs
	for range 20 {
		s := New(b.cfg, b.src)
		s.remote.preferredPort = 0
		ctx, cancel := context.WithCancel(t.Context())
		l, err := s.Listen(ctx)
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		if _, err := s.remote.issueKubeconfig(ctx, access.RoleRead, time.Hour); err != nil {
			t.Error(err)
		}
		cancel()
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
		for _, d := range append(l.tls, *s.remote.loopback) {
			if err := d.Listener.(*net.TCPListener).SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
				t.Fatalf("%s is open after Serve returned", d.Addr())
			}
		}
		if _, err := s.remote.issueKubeconfig(t.Context(), access.RoleRead, time.Hour); !errors.Is(err, errStopping) {
			t.Fatalf("a kubeconfig after the shutdown = %v", err)
		}
		if err := s.remote.revokeKubeconfigs(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.remote.issueKubeconfig(t.Context(), access.RoleRead, time.Hour); !errors.Is(err, errStopping) {
			t.Fatalf("a kubeconfig after the shutdown = %v", err)
		}
	}
}

func TestKubeconfigUsesPortOfFlags(t *testing.T) {
	b := newTestServer(t).withTokens().start()
	k, c := b.kubeconfig(access.RoleRead, time.Hour)
	if k.Server != "https://"+b.tlsAddress || b.server.remote.loopback != nil {
		t.Errorf("it uses %s, the port is %s", k.Server, b.tlsAddress)
	}
	if code, body := b.request(c, "GET", k.Server+"/pods", ""); code != 200 {
		t.Errorf("GET /pods = %d %q", code, body)
	}
}

func TestExpiredAndUnknownCertificatesAreRejected(t *testing.T) {
	b := newTestServer(t).withTokens()
	other, err := pki.OpenAuthority(filepath.Join(b.dir, "other"), "clients", statefile.Disk{})
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := pki.OpenAuthority(filepath.Join(b.dir, "trusted"), "clients", statefile.Disk{})
	if err != nil {
		t.Fatal(err)
	}
	b.cfg.Remote.ClientCAFile = filepath.Join(b.dir, "trusted", "clients.crt")
	b.start()
	for _, c := range []struct {
		name   string
		from   *pki.Authority
		groups []string
		lasts  time.Duration
		prune  int
		words  string
	}{
		{"of our own", b.server.remote.clientCA, []string{"podstead:admin"}, time.Hour, 400, "dryRun"},
		{"expired", b.server.remote.clientCA, []string{"podstead:admin"}, -time.Minute, 401, "expired at"},
		{"of an unknown authority", other, []string{"podstead:admin"}, time.Hour, 401, "not signed by an accepted CA"},
		{"of --client-ca-file", trusted, []string{"podstead:admin"}, time.Hour, 400, "dryRun"},
		{"of the API server", trusted, []string{"system:masters"}, time.Hour, 400, "dryRun"},
		{"with too little", trusted, []string{"podstead:exec"}, time.Hour, 403, `user \"x\"`},
		{"with no role", trusted, []string{"admin", "podstead:root", "podstead:"}, time.Hour, 403, `user \"x\"`},
		{"expired, of --client-ca-file", trusted, []string{"podstead:admin"}, -time.Minute, 401, "expired at"},
	} {
		certPEM, keyPEM, _, err := c.from.Client("x", c.groups, c.lasts)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		code, body := b.request(b.client(pair), "POST", "https://"+b.tlsAddress+"/podstead/v1/images/prune?dryRun=x", "")
		if code != c.prune || !strings.Contains(body, c.words) {
			t.Errorf("a certificate %s = %d %q, want %d %q", c.name, code, body, c.prune, c.words)
		}
	}
	// A serving certificate is not a client certificate.
	pair, err := tls.LoadX509KeyPair(filepath.Join(b.cfg.Remote.Dir, "server.crt"),
		filepath.Join(b.cfg.Remote.Dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	if code, body := b.request(b.client(pair), "GET", "https://"+b.tlsAddress+"/pods", ""); code != 401 {
		t.Errorf("a serving certificate = %d %q", code, body)
	}
}

func TestOldTLSVersionsAreRejected(t *testing.T) {
	b := newTestServer(t).withTokens().start()
	for version, ok := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true,
		tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", b.tlsAddress,
			&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if err == nil {
			conn.Close()
		}
		if (err == nil) != ok {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	// Plain HTTP is rejected.
	resp, err := http.Get("http://" + b.tlsAddress + "/pods")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("without TLS: %s", resp.Status)
	}
}

func TestDisabledDebuggingHandlers(t *testing.T) {
	b := newTestServer(t).withTokens()
	b.cfg.Remote.DisableDebugging = true
	b.start()
	c := b.client()
	for _, path := range []string{"/containerLogs/a/b/c", "/api/v1/namespaces/a/pods/b/log", "/logs/", "/runningpods/",
		"/debug/pprof/heap"} {
		if code, body := b.request(c, "GET", "https://"+b.tlsAddress+path, adminToken); code != 405 ||
			!strings.Contains(body, "disabled") {
			t.Errorf("%s = %d %q", path, code, body)
		}
	}
	for _, path := range []string{"/exec/a/b/c", "/run/a/b/c", "/portForward/a/b", "/api/v1/namespaces/a/pods/b/attach",
		"/checkpoint/a/b/c"} {
		if code, body := b.request(c, "POST", "https://"+b.tlsAddress+path, adminToken); code != 405 ||
			!strings.Contains(body, "disabled") {
			t.Errorf("%s = %d %q", path, code, body)
		}
	}
	for path := range debugging {
		if !slices.ContainsFunc(b.server.routes, func(r Route) bool { return r.Path == path }) {
			t.Errorf("%s is no route", path)
		}
	}
	if code, _ := b.request(c, "GET", "https://"+b.tlsAddress+"/pods", readerToken); code != 200 {
		t.Errorf("/pods = %d", code)
	}
	if code, _ := b.request(c, "GET", "https://"+b.tlsAddress+"/containerLogs/a/b/c", ""); code != 401 {
		t.Errorf("logs for an unauthenticated client = %d, want 401", code)
	}
}

func TestReadOnlyPortServesReadClassesOnly(t *testing.T) {
	b := newTestServer(t)
	b.cfg.ReadOnlyAddress = "127.0.0.1:0"
	b.start()
	c := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(c.CloseIdleConnections)
	shown := 0
	for _, route := range b.server.routes {
		method := route.Method
		if method == "" {
			method = "POST"
		}
		if route.Access&(access.Logs|access.Exec|access.Admin) == 0 {
			continue
		}
		shown++
		path := strings.NewReplacer("{", "", "}", "").Replace(route.Path)
		if code, body := b.request(c, method, "http://"+b.readOnlyAddress+path, ""); code != 404 {
			t.Errorf("%s %s on the read-only port = %d %q, want 404", method, path, code, body)
		}
	}
	if shown < 4 {
		t.Errorf("only %d routes were tried", shown)
	}
	if code, body := b.request(c, "GET", "http://"+b.readOnlyAddress+"/pods", ""); code != 200 {
		t.Errorf("GET /pods = %d %q", code, body)
	}
}

// Connections that never complete a request do not block other clients, and are closed
// soon.
func TestSlowAndLargeRequestsAreClosed(t *testing.T) {
	t.Parallel()
	b := newTestServer(t).withTokens().start()
	c := b.client()
	var slow []net.Conn
	openSlow := func(handshake bool) {
		var conn net.Conn
		var err error
		if handshake {
			conn, err = tls.Dial("tcp", b.tlsAddress, &tls.Config{InsecureSkipVerify: true})
		} else {
			conn, err = net.Dial("tcp", b.tlsAddress)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if handshake {
			_, _ = io.WriteString(conn, "GET /pods HTTP/1.1\r\nHost: x\r\nX-A: b\r\n")
		}
		slow = append(slow, conn)
	}
	for i := range 200 {
		openSlow(i%2 == 1)
	}
	// gone reports whether the server has closed the connection until a time.
	gone := func(conn net.Conn, until time.Time) bool {
		if err := conn.SetReadDeadline(until); err != nil {
			t.Fatal(err)
		}
		_, err := io.Copy(io.Discard, conn)
		return !os.IsTimeout(err)
	}
	begin, responded := time.Now(), false
	for !responded && time.Since(begin) < 5*time.Minute {
		openSlow(false)
		if code, body := b.request(c, "GET", "https://"+b.tlsAddress+"/pods", readerToken); code != 200 {
			t.Fatalf("next to slow clients: %d %q", code, body)
		}
		// A blocked answer would arrive only after they are closed.
		responded = !gone(slow[len(slow)-1], time.Now().Add(time.Second))
	}
	if !responded {
		t.Error("no request is answered before the slow clients are disconnected")
	}
	begin = time.Now()
	for i, conn := range slow {
		if !gone(conn, begin.Add(5*time.Minute)) {
			t.Fatalf("connection %d is still open after %v", i, time.Since(begin))
		}
	}
	send := func(size int) (int, error) {
		conn, err := tls.Dial("tcp", b.tlsAddress, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			fmt.Fprintf(conn, "GET /pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nX-Large: %s\r\n\r\n", readerToken,
				strings.Repeat("x", size))
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		return resp.StatusCode, nil
	}
	for size, want := range map[int]int{maxHeaderBytes / 2: 200,
		4 * maxHeaderBytes: http.StatusRequestHeaderFieldsTooLarge} {
		code, err := send(size)
		// The server closes the connection half a second after its response. If the client
		// is still sending then, the response is lost.
		for begin := time.Now(); errors.Is(err, syscall.ECONNRESET) && time.Since(begin) < 5*time.Minute; {
			code, err = send(size)
		}
		if err != nil || code != want {
			t.Errorf("a header of %d bytes: %d, %v, want %d", size, code, err, want)
		}
	}
}

// A container has no reason between its creation and its start.
func TestStateWithoutReason(t *testing.T) {
	for want, st := range map[string]v1.ContainerState{
		"not started yet":            {Waiting: &v1.ContainerStateWaiting{}},
		"waiting (ImagePullBackOff)": {Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
		"waiting (ErrImagePull: no network)": {
			Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no network"}},
	} {
		if got := describeState(st); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
