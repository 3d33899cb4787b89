package streaming

import (
	"bytes"
	"context"
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

// fakeRuntime serves one session after the other to a command, as a container
// runtime does.
func fakeRuntime(t *testing.T, streams int, command func(map[string]httpstream.Stream) string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived := make(chan httpstream.Stream, 8)
		conn, err := spdy.Accept(w, protocolV4, func(s httpstream.Stream) { arrived <- s })
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

const well = `{"metadata":{},"status":"Success"}`

// upper answers with what comes on its input, in capitals, when that has ended.
func upper(s map[string]httpstream.Stream) string {
	text, err := io.ReadAll(s[v1.StreamTypeStdin])
	if err != nil {
		return `{"status":"Failure","message":"` + err.Error() + `"}`
	}
	_, _ = s[v1.StreamTypeStdout].Write(bytes.ToUpper(text))
	_, _ = io.WriteString(s[v1.StreamTypeStderr], "done")
	return well
}

// bed serves terminals and keeps how each ended.
type bed struct {
	url   string
	ended chan error
	// end is the daemon's.
	end func()
}

var everything = Options{Stdin: true, Stdout: true, Stderr: true}

func serveTerminal(t *testing.T, term Terminal) bed {
	t.Helper()
	b := bed{ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	b.end = cancel
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.ended <- term.Serve(w, r) }))
	s.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	s.Start()
	t.Cleanup(func() {
		cancel()
		s.Close()
		nothingLeft(t)
	})
	b.url = s.URL
	return b
}

// nothingLeft waits until no goroutine of these packages is left, but those in
// which the library waits half a minute for the answer to a stream.
func nothingLeft(t *testing.T) {
	t.Helper()
	var left []string
	for range 12000 {
		buf := make([]byte, 1<<20)
		left = nil
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "podstead/httpapi/") && !strings.Contains(g, "testing.tRunner") && !strings.Contains(g, "streaming.fakeRuntime") && !strings.Contains(g, "spdystream.(*Stream).WaitTimeout") {
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

func to(address string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return address, nil }
}

// dialSPDY is a client that speaks SPDY and has opened its streams.
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
	c, err := spdy.Upgrade(t.Context(), conn, r, protocol)
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
		t.Fatalf("the protocol is %q, want %q", c.Subprotocol(), protocol)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// readAll gives what comes on each channel until the other side closes.
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

func TestEndOfInputIsPassedOn(t *testing.T) {
	t.Run("SPDY", func(t *testing.T) {
		for _, protocol := range []string{protocolV4, protocolV3, protocolV1} {
			b := serveTerminal(t, Terminal{Client: everything, Runtime: everything, Open: to(fakeRuntime(t, 4, upper))})
			_, s := dialSPDY(t, b.url, protocol, "error", "stdin", "stdout", "stderr")
			_, _ = io.WriteString(s["stdin"], "hello")
			_ = s["stdin"].Close()
			out, _ := io.ReadAll(s["stdout"])
			errs, _ := io.ReadAll(s["stderr"])
			status, _ := io.ReadAll(s["error"])
			if string(out) != "HELLO" || string(errs) != "done" || (protocol == protocolV4) != (len(status) > 0) {
				t.Errorf("%s: %q, %q, status %q", protocol, out, errs, status)
			}
			if err := <-b.ended; err != nil {
				t.Errorf("%s: the session ended with %v", protocol, err)
			}
		}
	})
	t.Run("WebSocket", func(t *testing.T) {
		b := serveTerminal(t, Terminal{Client: everything, Runtime: everything, Open: to(fakeRuntime(t, 4, upper))})
		c := dialWebSocket(t, b.url, "v5.channel.k8s.io")
		for _, m := range []string{"\x00hel", "", "\x00lo", "\xff\x00"} {
			if err := c.WriteMessage(websocket.BinaryMessage, []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		got := readAll(t, c)
		var st metav1.Status
		if err := json.Unmarshal([]byte(got[3]), &st); got[1] != "HELLO" || got[2] != "done" || err != nil || st.Status != "Success" {
			t.Errorf("channels %q, %v", got, err)
		}
	})
}

func TestBase64Channels(t *testing.T) {
	b := serveTerminal(t, Terminal{Client: everything, Runtime: everything, Open: to(fakeRuntime(t, 4, func(s map[string]httpstream.Stream) string {
		first := make([]byte, 5)
		_, _ = io.ReadFull(s["stdin"], first)
		_, _ = s["stdout"].Write(bytes.ToUpper(first))
		return `{"status":"Failure","message":"no"}`
	}))})
	c := dialWebSocket(t, b.url, "base64.channel.k8s.io")
	if err := c.WriteMessage(websocket.TextMessage, []byte("0aGVsbG8=")); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, c); got['1'] != "SEVMTE8=" || got['3'] != "bm8=" {
		t.Errorf("channels %q", got)
	}
}

// A terminal's size goes to the runtime as it came.
func TestResize(t *testing.T) {
	o := Options{Stdin: true, Stdout: true, TTY: true}
	b := serveTerminal(t, Terminal{Client: o, Runtime: o, Open: to(fakeRuntime(t, 4, func(s map[string]httpstream.Stream) string {
		var size map[string]int
		_ = json.NewDecoder(s["resize"]).Decode(&size)
		text, _ := json.Marshal(size)
		_, _ = s["stdout"].Write(text)
		return well
	}))})
	c := dialWebSocket(t, b.url, "v4.channel.k8s.io")
	if err := c.WriteMessage(websocket.BinaryMessage, []byte("\x04{\"Width\":80,\"Height\":24}")); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, c)[1]; got != `{"Height":24,"Width":80}` {
		t.Errorf("the runtime is told %q", got)
	}
}

// However a client leaves, and whatever waits then, the runtime's side ends.
func TestClientThatLeavesEndsTheSession(t *testing.T) {
	for name, behave := range map[string]func(map[string]httpstream.Stream){
		"idle":         func(s map[string]httpstream.Stream) { _, _ = io.Copy(io.Discard, s["stdin"]) },
		"reads little": nil,
		"writes on": func(s map[string]httpstream.Stream) {
			for b := make([]byte, 64<<10); ; {
				if _, err := s["stdout"].Write(b); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			defer close(over)
			address := fakeRuntime(t, 4, func(s map[string]httpstream.Stream) string {
				if behave == nil {
					<-over
					return well
				}
				behave(s)
				return well
			})
			for _, shape := range []string{"SPDY", "WebSocket"} {
				b := serveTerminal(t, Terminal{Client: everything, Runtime: everything, Open: to(address), stall: 20 * time.Millisecond})
				var leave func()
				var send func([]byte) error
				if shape == "SPDY" {
					c, s := dialSPDY(t, b.url, protocolV4, "error", "stdin", "stdout", "stderr")
					leave = c.Abort
					send = func(b []byte) error { _, err := s["stdin"].Write(b); return err }
				} else {
					c := dialWebSocket(t, b.url, "v5.channel.k8s.io")
					leave = func() { c.Close() }
					send = func(b []byte) error { return c.WriteMessage(websocket.BinaryMessage, append([]byte{0}, b...)) }
				}
				var sending sync.WaitGroup
				sending.Go(func() {
					for b := make([]byte, 64<<10); behave == nil && send(b) == nil; {
					}
				})
				time.Sleep(100 * time.Millisecond) // until what can wait waits
				leave()
				sending.Wait()
				select {
				case err := <-b.ended:
					if !errors.Is(err, errGone) {
						t.Errorf("%s: the session ended with %v", shape, err)
					}
				case <-time.After(2 * time.Minute):
					t.Fatalf("%s: the session goes on", shape)
				}
			}
		})
	}
}

func TestRuntimeThatBreaksIsTold(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived := make(chan httpstream.Stream, 8)
		conn, err := spdy.Accept(w, protocolV4, func(s httpstream.Stream) { arrived <- s })
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Abort()
		for range 4 {
			s := <-arrived
			if s.Headers().Get(v1.StreamType) == v1.StreamTypeStdin {
				defer s.Read(make([]byte, 1)) // runs first: then all streams are open
			}
		}
	}))
	defer s.Close()
	b := serveTerminal(t, Terminal{Client: everything, Runtime: everything, Open: to(s.URL)})
	c := dialWebSocket(t, b.url, "v5.channel.k8s.io")
	if err := c.WriteMessage(websocket.BinaryMessage, []byte("\x00x")); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, c)
	if !strings.Contains(got[3], "without saying how it went") {
		t.Errorf("channels %q", got)
	}
}

func TestDaemonThatEndsTellsTheClient(t *testing.T) {
	begun := make(chan struct{})
	b := serveTerminal(t, Terminal{Client: everything, Runtime: everything, Open: to(fakeRuntime(t, 4, func(s map[string]httpstream.Stream) string {
		close(begun)
		return upper(s)
	}))})
	c := dialWebSocket(t, b.url, "v5.channel.k8s.io")
	<-begun
	b.end()
	if got := readAll(t, c); !strings.Contains(got[3], "podstead ends") {
		t.Errorf("channels %q", got)
	}
}

func TestIdleSessionEnds(t *testing.T) {
	b := serveTerminal(t, Terminal{Client: everything, Runtime: everything, Idle: 50 * time.Millisecond, Open: to(fakeRuntime(t, 4, upper))})
	got := readAll(t, dialWebSocket(t, b.url, "v5.channel.k8s.io"))
	if err := <-b.ended; !errors.Is(err, errIdle) || !strings.Contains(got[3], "nothing moved") {
		t.Errorf("%v, channels %q", err, got)
	}
}

// What cannot begin is told in plain HTTP, with the reason.
func TestRefusals(t *testing.T) {
	b := serveTerminal(t, Terminal{Client: everything, Runtime: everything, Open: func(context.Context) (string, error) {
		return "", errors.New("cannot open a session in container 12ab: it is in CONTAINER_EXITED state")
	}})
	ask := func(upgrade, protocols string) (int, string) {
		r, _ := http.NewRequest(http.MethodGet, b.url, nil)
		if upgrade != "" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", upgrade)
			r.Header.Set("X-Stream-Protocol-Version", protocols)
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
		<-b.ended
		return resp.StatusCode, st.Message
	}
	for _, c := range []struct {
		upgrade, protocols, want string
		code                     int
	}{
		{"", "", "SPDY/3.1 or a WebSocket", 400},
		{"SPDY/3.1", "v9.channel.k8s.io", "must name one of v4.channel.k8s.io", 403},
		{"SPDY/3.1", protocolV4, "CONTAINER_EXITED", 500},
		{"h2c", protocolV4, "SPDY/3.1 or a WebSocket", 400},
	} {
		if code, text := ask(c.upgrade, c.protocols); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%q %q: %d %q, want %d with %q", c.upgrade, c.protocols, code, text, c.code, c.want)
		}
	}
}
