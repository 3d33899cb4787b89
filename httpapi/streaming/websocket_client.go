package streaming

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/apistatus"
)

// channels are the streams of a WebSocket by number. Each message begins with the
// number of its stream.
var channels = []string{v1.StreamTypeStdin, v1.StreamTypeStdout, v1.StreamTypeStderr, v1.StreamTypeError,
	v1.StreamTypeResize}

const (
	// protocolV5 is v4 with closeChannel, over WebSocket only.
	protocolV5 = "v5.channel.k8s.io"
	// The protocols over WebSocket alone in which messages are text: the number of the stream as a digit, and
	// the bytes in base64.
	protocolBase64V4, protocolBase64 = "v4.base64.channel.k8s.io", "base64.channel.k8s.io"
	// errorChannel is the number of v1.StreamTypeError in channels.
	errorChannel = 3
	// closeChannel begins a message that closes a stream, whose number follows. It
	// was added in v5.
	closeChannel = 255
)

// webSocketProtocols are the remote command protocols over WebSocket, preferred first: those of the kubelet. A client
// that requests none gets the oldest one.
var webSocketProtocols = []string{protocolV5, protocolV4, protocolBase64V4, protocolV1, protocolBase64}

func isWebSocketRequest(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

// checkWebSocketProtocol returns an error if the client requests none of the supported
// protocols.
func checkWebSocketProtocol(r *http.Request, supported []string) error {
	requested := websocket.Subprotocols(r)
	if len(requested) == 0 && slices.Contains(supported, protocolV1) {
		return nil
	}
	if slices.ContainsFunc(requested, func(p string) bool { return slices.Contains(supported, p) }) {
		return nil
	}
	return fmt.Errorf("unsupported WebSocket subprotocol %q; supported: %s", strings.Join(requested, ", "),
		strings.Join(supported, ", "))
}

// writeBuffers are used while a message is written only.
var writeBuffers sync.Pool

// upgradeWebSocket upgrades a request that passed checkWebSocketProtocol. On failure
// the request has its response already. The Origin header is not checked here: an API server
// passes on the one of its client, a dashboard in a browser, and the listeners without
// authentication check it before.
func upgradeWebSocket(w http.ResponseWriter, r *http.Request, protocols []string) (*websocket.Conn, error) {
	u := websocket.Upgrader{
		Subprotocols: protocols, HandshakeTimeout: creationTimeout,
		CheckOrigin:    func(*http.Request) bool { return true },
		ReadBufferSize: 4 << 10, WriteBufferSize: chunkSize + 1, WriteBufferPool: &writeBuffers,
		Error: func(w http.ResponseWriter, _ *http.Request, code int, reason error) {
			apistatus.Write(w, r, apistatus.New(code, "failed to upgrade the request to WebSocket: %v", reason))
		},
	}
	return u.Upgrade(w, r, nil)
}

// webSocketClient is a client connected over WebSocket.
type webSocketClient struct {
	conn     *websocket.Conn
	protocol string
	// canCloseStreams reports that the protocol has closeChannel, base64 that its messages are text.
	canCloseStreams, base64 bool
	write                   sync.Mutex
	buffer                  [4 << 10]byte
	stdin, resize           pipe
	requested               map[string]bool
	closed                  chan struct{}
}

// pipe passes what is read from the socket to the reader of one stream.
type pipe struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func newPipe() pipe {
	r, w := io.Pipe()
	return pipe{r, w}
}

func acceptWebSocket(w http.ResponseWriter, r *http.Request, o Options) (*webSocketClient, error) {
	conn, err := upgradeWebSocket(w, r, webSocketProtocols)
	if err != nil {
		return nil, err
	}
	protocol := conn.Subprotocol()
	c := &webSocketClient{
		conn: conn, protocol: protocol, canCloseStreams: protocol == protocolV5, base64: protocol == protocolBase64V4 ||
			protocol == protocolBase64,
		stdin: newPipe(), resize: newPipe(), requested: map[string]bool{}, closed: make(chan struct{}),
	}
	for _, name := range o.streamNames() {
		c.requested[name] = true
	}
	go c.read()
	return c, nil
}

// read dispatches messages to their streams until the client disconnects. A stream
// that is not read blocks all of them, which slows the client down.
func (c *webSocketClient) read() {
	defer close(c.closed)
	for {
		_, message, err := c.conn.NextReader()
		if err != nil {
			break
		}
		var channel [1]byte
		if _, err := io.ReadFull(message, channel[:]); errors.Is(err, io.EOF) {
			continue // some clients begin with an empty message
		} else if err != nil {
			break
		}
		if c.base64 {
			// A character before '0' becomes the number of no stream.
			channel[0] -= '0'
			message = base64.NewDecoder(base64.StdEncoding, message)
		}
		if err := c.handleMessage(channel[0], message); err != nil {
			break
		}
	}
	_ = c.stdin.w.CloseWithError(io.ErrUnexpectedEOF)
	_ = c.resize.w.CloseWithError(io.ErrUnexpectedEOF)
}

func (c *webSocketClient) handleMessage(channel byte, message io.Reader) error {
	to := c.writerOf(channel)
	if c.canCloseStreams && channel == closeChannel {
		var closing [1]byte
		if _, err := io.ReadFull(message, closing[:]); err != nil {
			return err
		}
		if to = c.writerOf(closing[0]); to != nil {
			_ = to.Close() // its reader sees EOF
		}
		return nil
	}
	if to == nil {
		return nil // no reader
	}
	// Read in parts of the size of the buffer, which takes no more memory.
	_, err := io.CopyBuffer(to, message, c.buffer[:])
	if errors.Is(err, io.ErrClosedPipe) {
		return nil // the command does not read any more
	}
	return err
}

func (c *webSocketClient) writerOf(channel byte) *io.PipeWriter {
	switch {
	case int(channel) >= len(channels):
		return nil
	case channels[channel] == v1.StreamTypeStdin && c.requested[v1.StreamTypeStdin]:
		return c.stdin.w
	case channels[channel] == v1.StreamTypeResize:
		return c.resize.w
	}
	return nil
}

func (c *webSocketClient) input(name string) io.Reader {
	switch {
	case name == v1.StreamTypeStdin && c.requested[name]:
		return c.stdin.r
	case name == v1.StreamTypeResize:
		return c.resize.r
	}
	return nil
}

func (c *webSocketClient) output(name string) io.Writer {
	if channel := slices.Index(channels, name); channel >= 0 && c.requested[name] {
		return channelWriter{c, byte(channel)}
	}
	return nil
}

// channelWriter writes to one stream.
type channelWriter struct {
	c       *webSocketClient
	channel byte
}

func (o channelWriter) Write(b []byte) (int, error) {
	o.c.write.Lock()
	defer o.c.write.Unlock()
	kind, channel := websocket.BinaryMessage, o.channel
	if o.c.base64 {
		kind, channel = websocket.TextMessage, '0'+o.channel
	}
	w, err := o.c.conn.NextWriter(kind)
	if err != nil {
		return 0, err
	}
	if _, err := w.Write([]byte{channel}); err != nil {
		return 0, err
	}
	if !o.c.base64 {
		n, err := w.Write(b)
		return n, errors.Join(err, w.Close())
	}
	text := base64.NewEncoder(base64.StdEncoding, w)
	n, err := text.Write(b)
	return n, errors.Join(err, text.Close(), w.Close())
}

func (c *webSocketClient) done() <-chan struct{} { return c.closed }

func (c *webSocketClient) abort() { _ = c.conn.Close() }

// alive also sends a pong: the client expects pongs, and its pings are queued behind
// the bytes that are not read.
func (c *webSocketClient) alive() bool {
	_ = c.conn.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second))
	return !peerClosed(c.conn.NetConn())
}

func (c *webSocketClient) end(st *metav1.Status) {
	_ = c.conn.NetConn().SetDeadline(time.Now().Add(endTimeout))
	// What the client still sends is dropped.
	_ = c.stdin.r.Close()
	_ = c.resize.r.Close()
	if text := statusText(c.protocol, st); len(text) > 0 {
		_, _ = channelWriter{c, errorChannel}.Write(text)
	}
	_ = c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""),
		time.Now().Add(endTimeout))
	// The client closes after it has read this. Closing the socket earlier, with unread
	// bytes in it, could lose it.
	<-c.closed
	_ = c.conn.Close()
}
