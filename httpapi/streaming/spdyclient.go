package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/internal/spdy"
)

// The remote command protocols above SPDY, newest first. Up to v3 a failure is
// told as plain text, up to v2 there is no resizing.
const (
	protocolV4 = "v4.channel.k8s.io"
	protocolV3 = "v3.channel.k8s.io"
	protocolV2 = "v2.channel.k8s.io"
	protocolV1 = "channel.k8s.io"
)

// creationTimeout is how long a client may take to open its streams; it is
// the kubelet's.
const creationTimeout = 30 * time.Second

// spdyClient is a client that speaks SPDY.
type spdyClient struct {
	conn    *spdy.Conn
	streams map[string]httpstream.Stream
	left    chan struct{}
}

// acceptSPDY answers the upgrade and waits for the client's streams. After an
// error nothing more can be answered.
func acceptSPDY(ctx context.Context, w http.ResponseWriter, protocol string, o Options) (*spdyClient, error) {
	arrived := make(chan httpstream.Stream, 8)
	tooMany := make(chan struct{})
	flood := sync.OnceFunc(func() { close(tooMany) })
	conn, err := spdy.Accept(w, protocol, func(s httpstream.Stream) {
		select {
		case arrived <- s:
		default:
			flood()
		}
	})
	if err != nil {
		return nil, err
	}
	c := &spdyClient{conn: conn, streams: map[string]httpstream.Stream{}, left: make(chan struct{})}
	go func() {
		<-conn.CloseChan()
		close(c.left)
	}()
	wants := append(o.wants(), v1.StreamTypeError)
	if o.TTY && (protocol == protocolV4 || protocol == protocolV3) {
		wants = append(wants, v1.StreamTypeResize)
	}
	late := time.NewTimer(creationTimeout)
	defer late.Stop()
	for !c.has(wants) {
		select {
		case s := <-arrived:
			c.streams[s.Headers().Get(v1.StreamType)] = s
			continue
		case <-late.C:
			err = fmt.Errorf("the client did not open its streams within %v", creationTimeout)
		case <-tooMany:
			err = errors.New("the client opens more streams than there are")
		case <-c.left:
			err = errGone
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

func (c *spdyClient) in(name string) io.Reader {
	if s := c.streams[name]; s != nil {
		return s
	}
	return nil
}

func (c *spdyClient) out(name string) io.Writer {
	if s := c.streams[name]; s != nil {
		return s
	}
	return nil
}

func (c *spdyClient) gone() <-chan struct{} { return c.left }
func (c *spdyClient) abort()                { c.conn.Abort() }

// stalled sends nothing, in a frame: that its socket is closed is told to us
// when we write to it, also where its end is behind bytes that nobody reads.
func (c *spdyClient) stalled() bool {
	_, err := c.streams[v1.StreamTypeError].Write(nil)
	return err == nil && !hungUp(c.conn.Raw())
}

func (c *spdyClient) end(st *metav1.Status) {
	_ = c.conn.Raw().SetWriteDeadline(time.Now().Add(endTimeout))
	// What is told last comes last.
	for _, name := range []string{v1.StreamTypeStdout, v1.StreamTypeStderr} {
		if s := c.streams[name]; s != nil {
			_ = s.Close()
		}
	}
	s := c.streams[v1.StreamTypeError]
	_, _ = s.Write(statusText(st, c.conn.Protocol == protocolV4))
	_ = s.Close()
	c.conn.Finish()
}

// statusText is how an end is told: as a status since v4, before that as text,
// none if it ended well.
func statusText(st *metav1.Status, asJSON bool) []byte {
	if !asJSON {
		if st.Status == metav1.StatusSuccess {
			return nil
		}
		return []byte(st.Message)
	}
	text, err := json.Marshal(st)
	if err != nil { // strings and numbers only
		return fmt.Appendf(nil, `{"status":"Failure","message":%q}`, err)
	}
	return text
}
