package streaming

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/internal/spdy"
)

const (
	// protocolV4 is the remote command protocol that podstead and the runtime speak: the session ends
	// with a Status as JSON on the error stream, and a terminal has a resize stream.
	protocolV4 = "v4.channel.k8s.io"
	// protocolV3 has the message of a failure as text on the error stream, and protocolV2 no resize
	// stream in addition. The first one, over WebSocket too, has no number.
	protocolV3, protocolV2, protocolV1 = "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"
)

// spdyProtocols are the remote command protocols over SPDY: those of the kubelet.
var spdyProtocols = []string{protocolV4, protocolV3, protocolV2, protocolV1}

// creationTimeout is the kubelet's limit for a client to open its streams.
const creationTimeout = 30 * time.Second

// maxCommandStreams is the maximum number of streams of a client. The protocol has five.
const maxCommandStreams = 8

// spdyClient is a client connected over SPDY.
type spdyClient struct {
	conn     *spdy.Conn
	protocol string
	streams  map[string]httpstream.Stream
	closed   chan struct{}
}

// acceptSPDY upgrades the request and waits for the client's streams. After an error
// nothing can be served any more.
func acceptSPDY(ctx context.Context, w http.ResponseWriter, protocol string, o Options) (*spdyClient, error) {
	opened := make(chan httpstream.Stream, maxCommandStreams)
	conn, err := spdy.Accept(w, protocol, spdy.Limits{Streams: maxCommandStreams, Budget: unread},
		func(s httpstream.Stream) {
			select {
			case opened <- s:
			default: // more than the protocol has
			}
		})
	if err != nil {
		return nil, err
	}
	c := &spdyClient{conn: conn, protocol: protocol, streams: map[string]httpstream.Stream{}, closed: make(chan struct{})}
	go func() {
		<-conn.CloseChan()
		close(c.closed)
	}()
	required := append(o.streamNames(), v1.StreamTypeError)
	if o.TTY && (protocol == protocolV4 || protocol == protocolV3) {
		required = append(required, v1.StreamTypeResize)
	}
	timeout := time.NewTimer(creationTimeout)
	defer timeout.Stop()
	for !c.has(required) {
		select {
		case s := <-opened:
			c.streams[s.Headers().Get(v1.StreamType)] = s
			continue
		case <-timeout.C:
			err = fmt.Errorf("the client did not open its streams within %v", creationTimeout)
		case <-c.closed:
			err = errClientGone
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		conn.Abort()
		return nil, err
	}
	return c, nil
}

func (c *spdyClient) has(names []string) bool {
	for _, n := range names {
		if c.streams[n] == nil {
			return false
		}
	}
	return true
}

func (c *spdyClient) input(name string) io.Reader {
	if s := c.streams[name]; s != nil {
		return s
	}
	return nil
}

func (c *spdyClient) output(name string) io.Writer {
	if s := c.streams[name]; s != nil {
		return s
	}
	return nil
}

func (c *spdyClient) done() <-chan struct{} { return c.closed }
func (c *spdyClient) abort()                { c.conn.Abort() }

// alive sends an empty frame: writing to a closed socket fails, even if its end is
// queued behind unread bytes.
func (c *spdyClient) alive() bool {
	_, err := c.streams[v1.StreamTypeError].Write(nil)
	return err == nil && !peerClosed(c.conn.NetConn())
}

func (c *spdyClient) end(st *metav1.Status) {
	_ = c.conn.NetConn().SetWriteDeadline(time.Now().Add(endTimeout))
	// The status comes after all output.
	for _, name := range []string{v1.StreamTypeStdout, v1.StreamTypeStderr} {
		if s := c.streams[name]; s != nil {
			_ = s.Close()
		}
	}
	s := c.streams[v1.StreamTypeError]
	if text := statusText(c.protocol, st); len(text) > 0 {
		_, _ = s.Write(text)
	}
	_ = s.Close()
	c.conn.Finish()
}
