package spdy

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	kspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// lingering is how long Finish waits for the other side to take what was
// written and to close.
const lingering = 10 * time.Second

// handling is how long the frames before a connection's end may take.
const handling = time.Second

// errEnded says that the connection was ended while something was asked.
var errEnded = errors.New("the connection has ended")

// Conn is a SPDY connection. Whoever has one ends it with Finish or Abort.
type Conn struct {
	httpstream.Connection
	// Protocol is what was agreed on to be spoken above SPDY.
	Protocol string
	raw      *rawConn
}

// Abort ends the connection at once; calls under way on it and its streams
// fail. It may be called at any time, and again.
func (c *Conn) Abort() {
	// The socket goes first: a write that the other side does not take holds
	// the lock that the streams' own end needs.
	_ = c.raw.Conn.Close()
	_ = c.Connection.Close()
}

// Finish ends the connection after what was written, and returns when the
// other side has taken it and closed, or has taken nothing for some seconds.
// A socket that is closed with unread bytes in it is reset, which may cost the
// other side the last ones sent: so this reads on until the other side ends.
func (c *Conn) Finish() {
	_ = c.raw.SetWriteDeadline(time.Now().Add(lingering))
	_ = c.Connection.Close()
	_ = c.raw.Close()
	<-c.CloseChan()
	_ = c.raw.Conn.Close()
}

// Open opens a stream with headers, given as names and values in turn, and waits
// until the other side has taken it, or the connection has ended. (CreateStream
// alone waits on for 30 s then.)
func (c *Conn) Open(headers ...string) (httpstream.Stream, error) {
	type result struct {
		stream httpstream.Stream
		err    error
	}
	opened := make(chan result, 1)
	go func() {
		s, err := c.CreateStream(Headers(headers...))
		opened <- result{s, err}
	}()
	select {
	case r := <-opened:
		return r.stream, r.err
	case <-c.CloseChan():
	}
	// What came before the end is still being handled.
	select {
	case r := <-opened:
		return r.stream, r.err
	case <-time.After(handling):
		return nil, errEnded
	}
}

// Raw is the connection below, to ask about, not to use.
func (c *Conn) Raw() net.Conn { return c.raw.Conn }

// rawConn is the connection as SPDY sees it: what was buffered while the
// upgrade was read comes first, and closing only ends the writing.
type rawConn struct {
	net.Conn
	buffered *bufio.Reader
	once     sync.Once
}

// Read takes the rest from the connection itself: the buffer's own source may
// be the HTTP server's, which ends the request's context with the connection.
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
		_ = c.SetReadDeadline(time.Now().Add(lingering))
	})
	return nil
}

// NewServer speaks SPDY on a connection whose upgrade was answered. Each stream
// that the client opens is given to accept, which must not block.
func NewServer(conn net.Conn, buffered *bufio.Reader, protocol string, accept func(httpstream.Stream)) (*Conn, error) {
	raw := &rawConn{Conn: conn, buffered: buffered}
	c, err := kspdy.NewServerConnection(raw, func(s httpstream.Stream, _ <-chan struct{}) error {
		accept(s)
		return nil
	})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &Conn{Connection: c, Protocol: protocol, raw: raw}, nil
}
