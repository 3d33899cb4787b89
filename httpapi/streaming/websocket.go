package streaming

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// channels are the numbers of the streams in a WebSocket: each message begins
// with one.
var channels = []string{v1.StreamTypeStdin, v1.StreamTypeStdout, v1.StreamTypeStderr, v1.StreamTypeError, v1.StreamTypeResize}

// closeSignal is the number in a message that ends a stream: the stream's own
// follows. It came with v5.
const closeSignal = 255

// webSocketProtocols are the remote command protocols in a WebSocket, the best
// first. Those with base64 are for clients that can send text alone.
var webSocketProtocols = []string{"v5.channel.k8s.io", protocolV4, "v4.base64.channel.k8s.io", protocolV1, "base64.channel.k8s.io"}

// webSocketAsked says whether the request asks to become a WebSocket.
func webSocketAsked(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

// webSocketClient is a client that speaks WebSocket.
type webSocketClient struct {
	conn *websocket.Conn
	// text says that messages are base64, halves that a stream can be ended.
	text, halves, statuses bool
	write                  sync.Mutex
	stdin, resize          pipe
	has                    map[string]bool
	left                   chan struct{}
}

// pipe carries what is read from the socket to who takes it.
type pipe struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func newPipe() pipe {
	r, w := io.Pipe()
	return pipe{r, w}
}

// upgradeWebSocket answers the upgrade to one of the protocols.
func upgradeWebSocket(w http.ResponseWriter, r *http.Request, protocols []string) (*websocket.Conn, error) {
	if asked := websocket.Subprotocols(r); len(asked) > 0 && !slices.ContainsFunc(asked, func(p string) bool { return slices.Contains(protocols, p) }) {
		fail(w, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "no WebSocket protocol of %q is known; one of %s is needed", asked, strings.Join(protocols, ", ")))
		return nil, errAnswered
	}
	u := websocket.Upgrader{
		Subprotocols: protocols, HandshakeTimeout: creationTimeout,
		ReadBufferSize: chunk, WriteBufferSize: chunk + 1, Error: func(w http.ResponseWriter, _ *http.Request, code int, reason error) {
			fail(w, failure(code, metav1.StatusReasonBadRequest, "cannot become a WebSocket: %v", reason))
		},
	}
	return u.Upgrade(w, r, nil)
}

func acceptWebSocket(w http.ResponseWriter, r *http.Request, o Options) (*webSocketClient, error) {
	conn, err := upgradeWebSocket(w, r, webSocketProtocols)
	if err != nil {
		return nil, err
	}
	protocol := conn.Subprotocol()
	c := &webSocketClient{
		conn: conn, text: strings.Contains(protocol, "base64"), halves: strings.HasPrefix(protocol, "v5."),
		statuses: strings.HasPrefix(protocol, "v"), stdin: newPipe(), resize: newPipe(), has: map[string]bool{}, left: make(chan struct{}),
	}
	for _, name := range o.wants() {
		c.has[name] = true
	}
	go c.read()
	return c, nil
}

// read gives messages to their streams until the client leaves. A stream that
// is not taken from holds all of them up, which is what slows the client down.
func (c *webSocketClient) read() {
	defer close(c.left)
	err := io.ErrUnexpectedEOF
	for {
		_, message, e := c.conn.NextReader()
		if e != nil {
			break
		}
		if c.text {
			message = newBase64Message(message)
		}
		var channel [1]byte
		if _, e := io.ReadFull(message, channel[:]); errors.Is(e, io.EOF) {
			continue // empty, as some clients begin
		} else if e != nil {
			break
		}
		if e := c.take(channel[0], message); e != nil {
			break
		}
	}
	_ = c.stdin.w.CloseWithError(err)
	_ = c.resize.w.CloseWithError(err)
}

// newBase64Message is a message whose first character is the stream's digit and
// the rest base64.
func newBase64Message(message io.Reader) io.Reader {
	var digit [1]byte
	if _, err := io.ReadFull(message, digit[:]); err != nil {
		return strings.NewReader("")
	}
	return io.MultiReader(strings.NewReader(string(digit[0]-'0')), base64.NewDecoder(base64.StdEncoding, message))
}

func (c *webSocketClient) take(channel byte, message io.Reader) error {
	to := c.streamOf(channel)
	if c.halves && channel == closeSignal {
		var which [1]byte
		if _, err := io.ReadFull(message, which[:]); err != nil {
			return err
		}
		if to = c.streamOf(which[0]); to != nil {
			_ = to.Close() // its reader sees the end
		}
		return nil
	}
	if to == nil {
		return nil // nobody reads it
	}
	_, err := io.Copy(to, message)
	if errors.Is(err, io.ErrClosedPipe) {
		return nil // the command reads no more
	}
	return err
}

func (c *webSocketClient) streamOf(channel byte) *io.PipeWriter {
	switch {
	case int(channel) >= len(channels):
		return nil
	case channels[channel] == v1.StreamTypeStdin && c.has[v1.StreamTypeStdin]:
		return c.stdin.w
	case channels[channel] == v1.StreamTypeResize:
		return c.resize.w
	}
	return nil
}

func (c *webSocketClient) in(name string) io.Reader {
	switch {
	case name == v1.StreamTypeStdin && c.has[name]:
		return c.stdin.r
	case name == v1.StreamTypeResize:
		return c.resize.r
	}
	return nil
}

func (c *webSocketClient) out(name string) io.Writer {
	if !c.has[name] {
		return nil
	}
	for i, n := range channels {
		if n == name {
			return webSocketOut{c, byte(i)}
		}
	}
	return nil
}

// webSocketOut writes to a stream.
type webSocketOut struct {
	c       *webSocketClient
	channel byte
}

func (o webSocketOut) Write(b []byte) (int, error) {
	o.c.write.Lock()
	defer o.c.write.Unlock()
	if o.c.text {
		text := append([]byte{'0' + o.channel}, base64.StdEncoding.AppendEncode(nil, b)...)
		if err := o.c.conn.WriteMessage(websocket.TextMessage, text); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	w, err := o.c.conn.NextWriter(websocket.BinaryMessage)
	if err != nil {
		return 0, err
	}
	if _, err := w.Write([]byte{o.channel}); err != nil {
		return 0, err
	}
	n, err := w.Write(b)
	return n, errors.Join(err, w.Close())
}

func (c *webSocketClient) gone() <-chan struct{} { return c.left }

func (c *webSocketClient) abort() { _ = c.conn.Close() }

// stalled tells the client that we are here: it reckons with pongs, and its
// pings are behind what is not read.
func (c *webSocketClient) stalled() bool {
	_ = c.conn.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second))
	return !hungUp(c.conn.NetConn())
}

func (c *webSocketClient) end(st *metav1.Status) {
	_ = c.conn.NetConn().SetDeadline(time.Now().Add(endTimeout))
	// What the client sends on is dropped.
	_ = c.stdin.r.Close()
	_ = c.resize.r.Close()
	if text := statusText(st, c.statuses); text != nil {
		_, _ = webSocketOut{c, 3}.Write(text)
	}
	_ = c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(endTimeout))
	// A client closes when it has read this; a socket closed before, with
	// unread bytes in it, would lose it.
	<-c.left
	_ = c.conn.Close()
}
