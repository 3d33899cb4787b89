package streaming

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/internal/spdy"
)

// forwardingRuntime is a runtime that echoes on port 80 and has no other port.
func forwardingRuntime(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived := make(chan httpstream.Stream, 8)
		conn, err := spdy.Accept(w, protocolForward, spdy.Limits{Streams: maxForwardStreams},
			func(s httpstream.Stream) { arrived <- s })
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Abort()
		all := map[string]httpstream.Stream{}
		for len(all) < 2 {
			s := <-arrived
			all[s.Headers().Get(v1.StreamType)] = s
		}
		data, errs := all[v1.StreamTypeData], all[v1.StreamTypeError]
		if port := data.Headers().Get(v1.PortHeader); port != "80" {
			_, _ = io.WriteString(errs, "nothing on port "+port)
		} else {
			_, _ = io.Copy(data, data)
		}
		_ = errs.Close()
		_ = data.Close()
		conn.Finish()
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func serveForward(t *testing.T, f PortForward) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = f.Serve(w, r) }))
	s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.Start()
	t.Cleanup(func() {
		cancel()
		s.Close()
		awaitNoGoroutines(t)
	})
	return s.URL
}

// connect opens the two streams of a connection.
func connect(t *testing.T, c *spdy.Conn, port, id int) (data, errs httpstream.Stream) {
	t.Helper()
	open := func(kind string) (httpstream.Stream, error) {
		return c.CreateStream(spdy.Headers(v1.StreamType, kind, v1.PortHeader, strconv.Itoa(port),
			v1.PortForwardRequestIDHeader, strconv.Itoa(id)))
	}
	errs, err := open(v1.StreamTypeError)
	if err != nil {
		t.Fatal(err)
	}
	// If the port refuses the connection, the server may reset the data stream before its
	// acceptance is seen here.
	data, err = open(v1.StreamTypeData)
	if err != nil && err.Error() != "stream reset" {
		t.Fatal(err)
	}
	return data, errs
}

// The runtime forwards where the pod's namespace cannot be entered.
// fakeSandboxes has one sandbox, s1. Without a URL the runtime forwards no port.
type fakeSandboxes struct{ namespace, url string }

func (f fakeSandboxes) NetworkNamespace(context.Context, string) (string, error) {
	return f.namespace, nil
}

func (f fakeSandboxes) PortForward(_ context.Context, id string, _ ...int32) (string, error) {
	if f.url == "" || id != "s1" {
		return "", errors.New("no such sandbox")
	}
	return f.url, nil
}

func TestPortForwardViaRuntime(t *testing.T) {
	runtime := forwardingRuntime(t)
	url := serveForward(t, PortForward{Dial: func(ctx context.Context, port uint16) (PortConn, error) {
		// A runtime in other namespaces reports one that cannot be entered.
		return DialPort(ctx, fakeSandboxes{namespace: "/does/not/exist", url: runtime}, "s1", port)
	}})
	c, _ := dialSPDY(t, url, protocolForward)
	for id := range 20 {
		data, errs := connect(t, c, 80, id)
		_, _ = io.WriteString(data, "hello")
		_ = data.Close()
		text, _ := io.ReadAll(data)
		problem, _ := io.ReadAll(errs)
		if string(text) != "hello" || len(problem) > 0 {
			t.Fatalf("connection %d: %q, error %q", id, text, problem)
		}
	}
	_, errs := connect(t, c, 81, 100)
	if text, _ := io.ReadAll(errs); string(text) != "nothing on port 81" {
		t.Errorf("error stream: %q", text)
	}
}

// closedPort returns a port that refuses connections and stays reserved.
func closedPort(t *testing.T) int {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(s) })
	if err := unix.Bind(s, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(s)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*unix.SockaddrInet4).Port
}

// runAsRootOfNamespaces runs the test in a process that is root of a user namespace, with a
// network namespace that it may enter: only root can.
func runAsRootOfNamespaces(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	c.Env = append(os.Environ(), ownNamespaces+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("in namespaces of its own: %v; run it as root, or allow user namespaces: sysctl "+
			"kernel.unprivileged_userns_clone user.max_user_namespaces\n%s", err, out)
	}
}

// ownNamespaces is set in the environment of the process of runAsRootOfNamespaces.
const ownNamespaces = "PODSTEAD_TEST_OWN_NAMESPACES"

// raiseLoopback sets the loopback interface of a new network namespace up.
func raiseLoopback(t *testing.T) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		t.Fatal(err)
	}
}

// Each direction closes on its own, and the client's disconnect ends the connection in
// the pod.
func TestPortForwardInNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		runAsRootOfNamespaces(t)
		return
	}
	if os.Getenv(ownNamespaces) != "" {
		raiseLoopback(t)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conns := make(chan net.Conn, 1)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			conns <- c
		}
	}()
	url := serveForward(t, PortForward{Dial: func(ctx context.Context, port uint16) (PortConn, error) {
		return DialPort(ctx, fakeSandboxes{namespace: "/proc/self/ns/net"}, "s1", port)
	}})
	c, _ := dialSPDY(t, url, protocolForward)
	data, errs := connect(t, c, l.Addr().(*net.TCPAddr).Port, 1)
	inside := <-conns
	_, _ = io.WriteString(data, "question")
	_ = data.Close()
	text, err := io.ReadAll(inside)
	if err != nil || string(text) != "question" {
		t.Fatalf("inside: %q, %v", text, err)
	}
	_, _ = io.WriteString(inside, "answer")
	_ = inside.Close()
	if text, _ = io.ReadAll(data); string(text) != "answer" {
		t.Errorf("answer: %q", text)
	}
	if text, _ := io.ReadAll(errs); len(text) > 0 {
		t.Errorf("error stream: %q", text)
	}

	connect(t, c, l.Addr().(*net.TCPAddr).Port, 2)
	inside = <-conns
	c.Abort()
	if n, err := inside.Read(make([]byte, 1)); err == nil {
		t.Errorf("the connection inside returned %d bytes after the client disconnected", n)
	}
	_ = inside.Close()

	c, _ = dialSPDY(t, url, protocolForward)
	_, errs = connect(t, c, closedPort(t), 3)
	if text, _ := io.ReadAll(errs); !strings.Contains(string(text), "nothing listens on port") {
		t.Errorf("error stream: %q", text)
	}
}

// fill takes all slots that are left until the test ends.
func fill(t *testing.T, slots chan struct{}) {
	t.Helper()
	for range cap(slots) {
		slots <- struct{}{}
	}
	t.Cleanup(func() {
		for range cap(slots) {
			<-slots
		}
	})
}

// Sessions have some connections of their own while others have used up the total, and those of
// local clients are not limited by it.
func TestForwardedConnectionsBeyondTheTotal(t *testing.T) {
	fill(t, forwarded)
	for name, local := range map[string]bool{"remote": false, "local": true} {
		t.Run(name, func(t *testing.T) {
			dialed := make(chan struct{})
			url := serveForward(t, PortForward{Local: local, Dial: func(ctx context.Context, _ uint16) (PortConn, error) {
				inside, outside := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, outside) }()
				dialed <- struct{}{}
				return pipePort{inside}, nil
			}})
			c, _ := dialSPDY(t, url, protocolForward)
			for id := range ownForwarded {
				connect(t, c, 80, id)
				<-dialed
			}
			_, errs := connect(t, c, 80, ownForwarded)
			if local {
				<-dialed
			} else if text, _ := io.ReadAll(errs); !strings.Contains(string(text), "too many connections") {
				t.Errorf("error stream: %q", text)
			}
		})
	}
}

// pipePort is a port of a pod that reads everything.
type pipePort struct{ net.Conn }

func (p pipePort) CloseWrite() error       { return nil }
func (p pipePort) Abort()                  { _ = p.Close() }
func (p pipePort) SupportsHalfClose() bool { return true }
func (p pipePort) Err() error              { return nil }

// A session makes some connections at once, so that a pod that does not respond leaves slots for
// others.
func TestDialsOfASession(t *testing.T) {
	var now, most atomic.Int64
	started, response := make(chan struct{}), make(chan struct{})
	url := serveForward(t, PortForward{Dial: func(ctx context.Context, _ uint16) (PortConn, error) {
		defer now.Add(-1)
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		started <- struct{}{}
		<-response
		return nil, errors.New("no answer")
	}})
	c, _ := dialSPDY(t, url, protocolForward)
	const count = 3 * maxSessionDialing
	var ends []httpstream.Stream
	for id := range count {
		_, errs := connect(t, c, 80, id)
		ends = append(ends, errs)
	}
	for range maxSessionDialing {
		<-started
	}
	for range count - maxSessionDialing {
		response <- struct{}{}
		<-started
	}
	close(response)
	for _, errs := range ends {
		if text, _ := io.ReadAll(errs); string(text) != "no answer" {
			t.Errorf("error stream: %q", text)
		}
	}
	if got := most.Load(); got > maxSessionDialing {
		t.Errorf("%d connections were made at once", got)
	}
}

// The wait for a slot ends.
func TestWaitForADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, start := make(chan struct{}, 1), time.Now()
		if _, err := awaitDial(t.Context(), nil, slots); err != nil {
			t.Fatal(err)
		}
		if _, err := awaitDial(t.Context(), nil, slots); err == nil || time.Since(start) != dialTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errIdle)
		if _, err := awaitDial(ctx, nil, slots); !errors.Is(err, errIdle) {
			t.Error(err)
		}
	})
}

// Sessions that make all connections that may be made at once do not stop those of another.
func TestDialsOfOtherSessions(t *testing.T) {
	fill(t, dialing)
	url := serveForward(t, PortForward{Dial: func(ctx context.Context, _ uint16) (PortConn, error) {
		return dialPortInNamespace(ctx, "/does/not/exist", 80)
	}})
	c, _ := dialSPDY(t, url, protocolForward)
	for id := range 2 * maxSessionDialing {
		_, errs := connect(t, c, 80, id)
		if text, _ := io.ReadAll(errs); !strings.Contains(string(text), errNamespaceUnavailable.Error()) {
			t.Errorf("connection %d: %q", id, text)
		}
	}
}

// Local clients need no slot for a dial.
func TestLocalDial(t *testing.T) {
	fill(t, dialing)
	ctx := context.WithValue(t.Context(), localKey{}, true)
	if _, err := dialPortInNamespace(ctx, "/does/not/exist", 80); !errors.Is(err, errNamespaceUnavailable) {
		t.Error(err)
	}
}
