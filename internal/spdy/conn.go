package spdy

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"

	"k8s.io/streaming/pkg/httpstream"
)

// lingerTimeout limits how long Finish waits for the other side to read what was written
// and to close.
const lingerTimeout = 10 * time.Second

// errClosed is returned by calls that wait while the connection ends.
var errClosed = errors.New("connection closed")

// Conn is a SPDY connection. Its owner must call Finish or Abort.
type Conn struct {
	*streams
	// Protocol is the negotiated protocol above SPDY.
	Protocol string
	raw      *rawConn
}

// Abort closes the connection at once; calls in progress on it and its streams fail. It
// may be called at any time and more than once.
func (c *Conn) Abort() {
	// The socket is closed first: a blocked write holds the lock that closing the streams
	// needs.
	_ = c.raw.Conn.Close()
	_ = c.streams.Close()
}

// Finish closes the connection after everything written was sent, and returns when the
// other side has read it and closed, or has not done so for lingerTimeout. Closing a
// socket with unread bytes in it resets the connection, and the other side may lose the
// last bytes sent. Therefore Finish reads until the other side closes.
func (c *Conn) Finish() {
	_ = c.raw.SetWriteDeadline(time.Now().Add(lingerTimeout))
	_ = c.streams.Close()
	_ = c.raw.Close()
	<-c.CloseChan()
	_ = c.raw.Conn.Close()
}

// Open opens a stream with headers, given as alternating names and values, and waits until
// the other side has accepted it or the connection has ended.
func (c *Conn) Open(headers ...string) (httpstream.Stream, error) {
	return c.CreateStream(Headers(headers...))
}

// NetConn returns the underlying connection. The caller may inspect it and set deadlines,
// but must not read, write or close it.
func (c *Conn) NetConn() net.Conn { return c.raw.Conn }

// rawConn is the connection below SPDY. It first returns what was buffered while the
// upgrade was read. Close only ends writing.
type rawConn struct {
	net.Conn
	buffered *bufio.Reader
	once     sync.Once
}

// Read bypasses the buffer once it is empty: the buffer may read from the HTTP server's
// reader, which cancels the request's context when the connection ends.
func (c *rawConn) Read(b []byte) (int, error) {
	if n := c.buffered.Buffered(); n > 0 {
		return c.buffered.Read(b[:min(n, len(b))])
	}
	return c.Conn.Read(b)
}

func (c *rawConn) Close() error {
	c.once.Do(func() {
		half, ok := c.Conn.(interface{ CloseWrite() error })
		if !ok || half.CloseWrite() != nil {
			_ = c.Conn.Close()
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(lingerTimeout))
	})
	return nil
}

// NewServer serves SPDY on a connection whose upgrade was served. It passes each stream
// that the client opens to accept, which must not block.
func NewServer(conn net.Conn, buffered *bufio.Reader, protocol string, limits Limits,
	accept func(httpstream.Stream)) *Conn {
	raw := &rawConn{Conn: conn, buffered: buffered}
	return &Conn{streams: newStreams(raw, true, limits, accept), Protocol: protocol, raw: raw}
}
