package streaming

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/internal/spdy"
)

// fakeRuntime serves sessions with a command, as a container runtime does.
func fakeRuntime(t *testing.T, streams int, command func(map[string]httpstream.Stream) string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived := make(chan httpstream.Stream, 8)
		conn, err := spdy.Accept(w, protocolV4, spdy.Limits{Streams: maxCommandStreams},
			func(s httpstream.Stream) { arrived <- s })
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Abort()
		all := map[string]httpstream.Stream{}
		for len(all) < streams {
			select {
			case s := <-arrived:
				all[s.Headers().Get(v1.StreamType)] = s
			case <-conn.CloseChan():
				return
			}
		}
		status := command(all)
		for _, name := range []string{v1.StreamTypeStdout, v1.StreamTypeStderr} {
			if all[name] != nil {
				_ = all[name].Close()
			}
		}
		_, _ = io.WriteString(all[v1.StreamTypeError], status)
		_ = all[v1.StreamTypeError].Close()
		conn.Finish()
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const success = `{"metadata":{},"status":"Success"}`

// upper is a command that writes its input in upper case after EOF.
func upper(s map[string]httpstream.Stream) string {
	text, err := io.ReadAll(s[v1.StreamTypeStdin])
	if err != nil {
		return `{"status":"Failure","message":"` + err.Error() + `"}`
	}
	_, _ = s[v1.StreamTypeStdout].Write(bytes.ToUpper(text))
	_, _ = io.WriteString(s[v1.StreamTypeStderr], "done")
	return success
}

// remoteCommandHarness serves remote commands over HTTP and records how each session ended.
type remoteCommandHarness struct {
	url   string
	ended chan error
	// shutdown stops the server.
	shutdown func()
}

var allStreams = Options{Stdin: true, Stdout: true, Stderr: true}

func serveRemoteCommand(t *testing.T, c RemoteCommand) remoteCommandHarness {
	t.Helper()
	h := remoteCommandHarness{ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	h.shutdown = cancel
	s := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ended <- c.Serve(w, r) }))
	s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.Start()
	t.Cleanup(func() {
		cancel()
		s.Close()
		awaitNoGoroutines(t)
	})
	h.url = s.URL
	return h
}

// awaitNoGoroutines waits until no goroutine of these packages is left.
func awaitNoGoroutines(t *testing.T) {
	t.Helper()
	var left []string
	for range 12000 {
		buf := make([]byte, 1<<20)
		left = nil
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "podstead/httpapi/") && !strings.Contains(g, "testing.tRunner") &&
				!strings.Contains(g, "streaming.fakeRuntime") {
				left = append(left, g)
			}
		}
		if left == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("goroutines are left:\n%s", strings.Join(left, "\n\n"))
}

func openAt(address string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return address, nil }
}

// dialSPDY connects a client over SPDY and opens its streams.
func dialSPDY(t *testing.T, address, protocol string, names ...string) (*spdy.Conn, map[string]httpstream.Stream) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := spdy.Upgrade(t.Context(), conn, r, nil, protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abort)
	streams := map[string]httpstream.Stream{}
	for _, name := range names {
		if streams[name], err = c.CreateStream(spdy.Headers(v1.StreamType, name)); err != nil {
			t.Fatal(err)
		}
	}
	return c, streams
}

func dialWebSocket(t *testing.T, address, protocol string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{protocol}}
	c, _, err := d.Dial("ws"+strings.TrimPrefix(address, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Subprotocol() != protocol {
		t.Fatalf("protocol is %q, want %q", c.Subprotocol(), protocol)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// The Origin that an API server passes on is that of a dashboard in a browser.
func TestWebSocketWithOrigin(t *testing.T) {
	h := serveRemoteCommand(t, RemoteCommand{Client: allStreams, Runtime: allStreams,
		Open: openAt(fakeRuntime(t, 4, upper))})
	d := websocket.Dialer{Subprotocols: []string{protocolV5}}
	c, response, err := d.Dial("ws"+strings.TrimPrefix(h.url, "http"),
		http.Header{"Origin": {"https://dashboard.example.com"}})
	if err != nil {
		t.Fatalf("%v: %+v", err, response)
	}
	_ = c.Close()
	<-h.ended
}

// readAll returns what arrives on each channel until the other side closes.
func readAll(t *testing.T, c *websocket.Conn) map[byte]string {
	t.Helper()
	got := map[byte]string{}
	for {
		_, m, err := c.ReadMessage()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			return got
		}
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		got[m[0]] += string(m[1:])
	}
}

func TestEOFOfStdinIsPassedOn(t *testing.T) {
	t.Run("SPDY", func(t *testing.T) {
		h := serveRemoteCommand(t, RemoteCommand{Client: allStreams, Runtime: allStreams,
			Open: openAt(fakeRuntime(t, 4, upper))})
		_, s := dialSPDY(t, h.url, protocolV4, "error", "stdin", "stdout", "stderr")
		_, _ = io.WriteString(s["stdin"], "hello")
		_ = s["stdin"].Close()
		out, _ := io.ReadAll(s["stdout"])
		errs, _ := io.ReadAll(s["stderr"])
		status, _ := io.ReadAll(s["error"])
		if string(out) != "HELLO" || string(errs) != "done" || !strings.Contains(string(status), "Success") {
			t.Errorf("%q, %q, status %q", out, errs, status)
		}
		if err := <-h.ended; err != nil {
			t.Errorf("the session ended with %v", err)
		}
	})
	t.Run("WebSocket", func(t *testing.T) {
		h := serveRemoteCommand(t, RemoteCommand{Client: allStreams, Runtime: allStreams,
			Open: openAt(fakeRuntime(t, 4, upper))})
		c := dialWebSocket(t, h.url, protocolV5)
		for _, m := range []string{"\x00hel", "", "\x00lo", "\xff\x00"} {
			if err := c.WriteMessage(websocket.BinaryMessage, []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		got := readAll(t, c)
		var st metav1.Status
		if err := json.Unmarshal([]byte(got[3]), &st); got[1] != "HELLO" || got[2] != "done" || err != nil ||
			st.Status != "Success" {
			t.Errorf("channels %q, %v", got, err)
		}
	})
}

// Older clients get what the kubelet sends them: before v4 a failure is its message, and success is nothing.
func TestOlderProtocols(t *testing.T) {
	outputs := Options{Stdin: true, Stdout: true, Stderr: true}
	command := func(message string) func(map[string]httpstream.Stream) string {
		return func(s map[string]httpstream.Stream) string {
			line := make([]byte, 3)
			_, _ = io.ReadFull(s[v1.StreamTypeStdin], line)
			_, _ = s[v1.StreamTypeStdout].Write(append(line, 0xff))
			if message == "" {
				return success
			}
			return `{"status":"Failure","message":"` + message + `"}`
		}
	}
	encode := func(base64Text bool, channel byte, text string) (int, []byte) {
		if base64Text {
			return websocket.TextMessage, append([]byte{'0' + channel}, base64.StdEncoding.EncodeToString([]byte(text))...)
		}
		return websocket.BinaryMessage, append([]byte{channel}, text...)
	}
	for _, c := range []struct {
		protocol     string
		text, status bool
	}{
		{"", false, false}, {"channel.k8s.io", false, false}, {"base64.channel.k8s.io", true, false},
		{"v4.channel.k8s.io", false, true}, {"v4.base64.channel.k8s.io", true, true},
	} {
		for _, message := range []string{"", "exit code 3"} {
			h := serveRemoteCommand(t, RemoteCommand{Client: outputs, Runtime: outputs,
				Open: openAt(fakeRuntime(t, 4, command(message)))})
			d := websocket.Dialer{}
			if c.protocol != "" {
				d.Subprotocols = []string{c.protocol}
			}
			conn, response, err := d.Dial("ws"+strings.TrimPrefix(h.url, "http"), nil)
			if err != nil || conn.Subprotocol() != c.protocol {
				t.Fatalf("%q: %v, %+v", c.protocol, err, response)
			}
			if err := conn.WriteMessage(encode(c.text, 0, "hey")); err != nil {
				t.Fatal(err)
			}
			got := map[byte]string{}
			for {
				kind, m, err := conn.ReadMessage()
				if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
					break
				}
				if err != nil || (kind == websocket.TextMessage) != c.text {
					t.Fatalf("%q: message type %d, %v", c.protocol, kind, err)
				}
				if !c.text {
					got[m[0]] += string(m[1:])
					continue
				}
				text, err := base64.StdEncoding.DecodeString(string(m[1:]))
				if err != nil {
					t.Fatalf("%q: %q: %v", c.protocol, m, err)
				}
				got[m[0]-'0'] += string(text)
			}
			_ = conn.Close()
			if got[1] != "hey\xff" {
				t.Errorf("%q: output %q", c.protocol, got)
			}
			switch {
			case c.status && !strings.Contains(got[3], `"status":"`), !c.status && got[3] != message:
				t.Errorf("%q: the error stream has %q", c.protocol, got[3])
			}
			<-h.ended
		}
	}
	for _, protocol := range []string{"v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"} {
		for _, message := range []string{"", "exit code 3"} {
			h := serveRemoteCommand(t, RemoteCommand{Client: outputs, Runtime: outputs,
				Open: openAt(fakeRuntime(t, 4, command(message)))})
			_, s := dialSPDY(t, h.url, protocol, "error", "stdin", "stdout", "stderr")
			_, _ = io.WriteString(s["stdin"], "hey")
			out, _ := io.ReadAll(s["stdout"])
			status, _ := io.ReadAll(s["error"])
			if string(out) != "hey\xff" || string(status) != message {
				t.Errorf("%s: %q, error stream %q", protocol, out, status)
			}
			<-h.ended
		}
	}
}

// A terminal of a client without a resize stream.
func TestTerminalWithoutResize(t *testing.T) {
	o := Options{Stdin: true, Stdout: true, TTY: true}
	h := serveRemoteCommand(t, RemoteCommand{Client: o, Runtime: o, Open: openAt(fakeRuntime(t, 4, upperOnTerminal))})
	_, s := dialSPDY(t, h.url, "v2.channel.k8s.io", "error", "stdin", "stdout")
	_, _ = io.WriteString(s["stdin"], "hey")
	_ = s["stdin"].Close()
	if out, _ := io.ReadAll(s["stdout"]); string(out) != "HEY" {
		t.Errorf("%q", out)
	}
	<-h.ended
}

// upperOnTerminal is upper on a terminal.
func upperOnTerminal(s map[string]httpstream.Stream) string {
	text, _ := io.ReadAll(s[v1.StreamTypeStdin])
	_, _ = s[v1.StreamTypeStdout].Write(bytes.ToUpper(text))
	return success
}

// The size of a terminal is passed on to the runtime unchanged.
func TestResize(t *testing.T) {
	o := Options{Stdin: true, Stdout: true, TTY: true}
	h := serveRemoteCommand(t, RemoteCommand{Client: o, Runtime: o,
		Open: openAt(fakeRuntime(t, 4, func(s map[string]httpstream.Stream) string {
			var size map[string]int
			_ = json.NewDecoder(s["resize"]).Decode(&size)
			text, _ := json.Marshal(size)
			_, _ = s["stdout"].Write(text)
			return success
		}))})
	c := dialWebSocket(t, h.url, "v4.channel.k8s.io")
	if err := c.WriteMessage(websocket.BinaryMessage, []byte("\x04{\"Width\":80,\"Height\":24}")); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, c)[1]; got != `{"Height":24,"Width":80}` {
		t.Errorf("the runtime received %q", got)
	}
}

// The runtime's side ends however the client disconnects, and whatever blocks then.
func TestClientDisconnectEndsSession(t *testing.T) {
	for name, command := range map[string]func(map[string]httpstream.Stream){
		"idle":          func(s map[string]httpstream.Stream) { _, _ = io.Copy(io.Discard, s["stdin"]) },
		"does not read": nil,
		"keeps writing": func(s map[string]httpstream.Stream) {
			for b := make([]byte, 64<<10); ; {
				if _, err := s["stdout"].Write(b); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			defer close(release)
			address := fakeRuntime(t, 4, func(s map[string]httpstream.Stream) string {
				if command == nil {
					<-release
					return success
				}
				command(s)
				return success
			})
			for _, transport := range []string{"SPDY", "WebSocket"} {
				h := serveRemoteCommand(t, RemoteCommand{Client: allStreams, Runtime: allStreams, Open: openAt(address),
					stallCheck: 20 * time.Millisecond})
				var disconnect func()
				var send func([]byte) error
				if transport == "SPDY" {
					c, s := dialSPDY(t, h.url, protocolV4, "error", "stdin", "stdout", "stderr")
					disconnect = c.Abort
					send = func(b []byte) error { _, err := s["stdin"].Write(b); return err }
				} else {
					c := dialWebSocket(t, h.url, protocolV5)
					disconnect = func() { c.Close() }
					send = func(b []byte) error { return c.WriteMessage(websocket.BinaryMessage, append([]byte{0}, b...)) }
				}
				var sending sync.WaitGroup
				sending.Go(func() {
					b := make([]byte, 64<<10)
					for command == nil && send(b) == nil {
						continue
					}
				})
				time.Sleep(100 * time.Millisecond) // until the writes block
				disconnect()
				sending.Wait()
				select {
				case err := <-h.ended:
					if !errors.Is(err, errClientGone) {
						t.Errorf("%s: the session ended with %v", transport, err)
					}
				case <-time.After(2 * time.Minute):
					t.Fatalf("%s: the session goes on", transport)
				}
			}
		})
	}
}

func TestLostRuntimeIsReported(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived := make(chan httpstream.Stream, 8)
		conn, err := spdy.Accept(w, protocolV4, spdy.Limits{Streams: maxCommandStreams},
			func(s httpstream.Stream) { arrived <- s })
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Abort()
		for range 4 {
			s := <-arrived
			if s.Headers().Get(v1.StreamType) == v1.StreamTypeStdin {
				defer func() { _, _ = s.Read(make([]byte, 1)) }() // deferred last, so it runs first: all streams are open then
			}
		}
	}))
	defer s.Close()
	h := serveRemoteCommand(t, RemoteCommand{Client: allStreams, Runtime: allStreams, Open: openAt(s.URL)})
	c := dialWebSocket(t, h.url, protocolV5)
	if err := c.WriteMessage(websocket.BinaryMessage, []byte("\x00x")); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, c)
	if !strings.Contains(got[3], "lost the connection to the container runtime") {
		t.Errorf("channels %q", got)
	}
}

func TestShutdownIsReportedToTheClient(t *testing.T) {
	started := make(chan struct{})
	h := serveRemoteCommand(t, RemoteCommand{Client: allStreams, Runtime: allStreams,
		Open: openAt(fakeRuntime(t, 4, func(s map[string]httpstream.Stream) string {
			close(started)
			return upper(s)
		}))})
	c := dialWebSocket(t, h.url, protocolV5)
	<-started
	h.shutdown()
	if got := readAll(t, c); !strings.Contains(got[3], "shutting down") {
		t.Errorf("channels %q", got)
	}
}

func TestIdleTimeoutEndsSession(t *testing.T) {
	h := serveRemoteCommand(t, RemoteCommand{Client: allStreams, Runtime: allStreams, Idle: 50 * time.Millisecond,
		Open: openAt(fakeRuntime(t, 4, upper))})
	got := readAll(t, dialWebSocket(t, h.url, protocolV5))
	if err := <-h.ended; !errors.Is(err, errIdle) || !strings.Contains(got[3], "idle timeout") {
		t.Errorf("%v, channels %q", err, got)
	}
}

// A session that cannot be started is served in plain HTTP, with the reason.
func TestRequestErrors(t *testing.T) {
	h := serveRemoteCommand(t, RemoteCommand{Client: allStreams, Runtime: allStreams,
		Open: func(context.Context) (string, error) {
			return "", errors.New("cannot open a session in container 12ab: it is in CONTAINER_EXITED state")
		}})
	request := func(upgrade, protocols string) (int, string) {
		r, _ := http.NewRequest(http.MethodGet, h.url, nil)
		if upgrade != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", upgrade)
			r.Header.Set("X-Stream-Protocol-Version", protocols)
			r.Header.Set("Sec-WebSocket-Protocol", protocols)
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var st metav1.Status
		if err := json.NewDecoder(resp.Body).Decode(&st); err != nil || int(st.Code) != resp.StatusCode {
			t.Errorf("%d, %+v, %v", resp.StatusCode, st, err)
		}
		<-h.ended
		return resp.StatusCode, st.Message
	}
	for _, c := range []struct {
		upgrade, protocols, want string
		code                     int
	}{
		{"", "", "SPDY/3.1 or WebSocket", 400},
		{"SPDY/3.1", "v6.channel.k8s.io",
			"supported in the header X-Stream-Protocol-Version: v4.channel.k8s.io, v3.channel.k8s.io", 403},
		{"websocket", "v3.channel.k8s.io",
			`"v3.channel.k8s.io"; supported: v5.channel.k8s.io, v4.channel.k8s.io, v4.base64.channel.k8s.io, channel.k8s.io`,
			400},
		{"SPDY/3.1", protocolV4, "CONTAINER_EXITED", 500},
		{"h2c", protocolV4, "SPDY/3.1 or WebSocket", 400},
	} {
		if code, text := request(c.upgrade, c.protocols); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%q %q: %d %q, want %d with %q", c.upgrade, c.protocols, code, text, c.code, c.want)
		}
	}
}
