package streaming

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/internal/spdy"
)

const (
	protocolForward = "portforward.k8s.io"
	// protocolTunnel is SPDY/3.1 inside a WebSocket.
	protocolTunnel = "SPDY/3.1+" + protocolForward
	// maxForwarded is the maximum number of concurrent connections of one session;
	// each costs a dozen goroutines.
	maxForwarded = 512
	// maxForwardStreams is the maximum number of streams of one session: those of the
	// connections, and of as many that are incomplete or are rejected.
	maxForwardStreams = 4 * maxForwarded
)

// PortForward serves one port forwarding session, which carries any number of
// connections, one after the other or concurrently.
type PortForward struct {
	// Dial connects to a port of the pod. Its errors are sent to the client.
	Dial func(ctx context.Context, port uint16) (PortConn, error)
	// Idle ends a session without traffic after this time; 0 means never.
	Idle time.Duration
	// Local reports that the client is the owner of the node, whom the limits of all sessions
	// together do not concern.
	Local bool
}

// PortConn is a connection to a port of a pod.
type PortConn interface {
	io.ReadWriter
	// CloseWrite ends the direction to the pod.
	CloseWrite() error
	// Abort closes the connection and ends the calls in progress.
	Abort()
	// SupportsHalfClose reports whether writing may go on after reading came to EOF.
	SupportsHalfClose() bool
	// Err returns why the connection ended, after reading came to EOF; nil if it ended
	// normally.
	Err() error
}

// Serve serves a port forwarding request. It returns after the session and all that
// belongs to it have ended.
func (f PortForward) Serve(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(errSessionEnded)
	ctx = context.WithValue(ctx, ownDialsKey{}, make(chan struct{}, ownDialing))
	own := ownForwarded
	if f.Local {
		own = maxForwarded
		ctx = context.WithValue(ctx, localKey{}, true)
	}
	limits := spdy.Limits{Streams: maxForwardStreams, Budget: unread}
	s := &forwardSession{
		ctx: ctx, cancel: cancel, dial: f.Dial, idle: f.Idle, opened: make(chan httpstream.Stream, maxForwarded),
		incomplete: map[string]*streamPair{}, slots: make(chan struct{}, maxForwarded),
		own: make(chan struct{}, own), dialing: make(chan struct{}, maxSessionDialing),
	}
	var err error
	switch {
	case isWebSocketRequest(r):
		tunnel := []string{protocolTunnel}
		if err := checkWebSocketProtocol(r, tunnel); err != nil {
			apistatus.Write(w, r, apistatus.New(http.StatusBadRequest, "%v", err))
			return nil
		}
		ws, e := upgradeWebSocket(w, r, tunnel)
		if e != nil {
			return nil
		}
		conn := &webSocketConn{Conn: ws}
		s.conn = spdy.NewServer(conn, bufio.NewReader(conn), protocolForward, limits, s.accept)
	case spdy.IsUpgradeRequest(r):
		protocol, e := spdy.Negotiate(r, protocolForward)
		if e != nil {
			apistatus.Write(w, r, apistatus.New(http.StatusForbidden, "%v", e))
			return nil
		}
		s.conn, err = spdy.Accept(w, protocol, limits, s.accept)
	default:
		apistatus.Write(w, r, apistatus.New(http.StatusBadRequest,
			"upgrade required: send an upgrade request to SPDY/3.1, or to WebSocket with the subprotocol %s", protocolTunnel))
		return nil
	}
	if err != nil {
		return nil // nothing can be served any more
	}
	return s.run()
}

// forwardSession is a running port forwarding session.
type forwardSession struct {
	ctx       context.Context
	cancel    context.CancelCauseFunc
	dial      func(context.Context, uint16) (PortConn, error)
	idle      time.Duration
	conn      *spdy.Conn
	idleTimer *time.Timer
	opened    chan httpstream.Stream
	// incomplete are the connections of which one stream is missing, by request ID.
	incomplete map[string]*streamPair
	forwards   sync.WaitGroup
	// slots are the session's connections, own those outside the total of all sessions, and
	// dialing those being made.
	slots, own, dialing chan struct{}
}

// streamPair is a forwarded connection: a data stream and an error stream with the same
// request ID.
type streamPair struct {
	data, errors httpstream.Stream
	since        time.Time
}

// accept queues a stream that the client opens. kubectl never has so many streams
// waiting that the queue is full.
func (s *forwardSession) accept(stream httpstream.Stream) {
	select {
	case s.opened <- stream:
	default:
		s.cancel(errors.New("too many streams at once"))
	}
}

// run forwards until the client disconnects.
func (s *forwardSession) run() error {
	if s.idle > 0 {
		s.idleTimer = time.AfterFunc(s.idle, func() { s.cancel(errIdle) })
		defer s.idleTimer.Stop()
	}
	stop := context.AfterFunc(s.ctx, s.conn.Abort)
	defer stop()
	defer s.conn.Abort()
	defer s.forwards.Wait()
	defer s.cancel(errSessionEnded)
	expiry := time.NewTicker(creationTimeout)
	defer expiry.Stop()
	for {
		select {
		case <-s.conn.CloseChan():
			return errClientGone
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-expiry.C:
			s.dropExpired()
		case stream := <-s.opened:
			s.add(stream)
		}
	}
}

// dropExpired ends connections whose second stream was not opened in time.
func (s *forwardSession) dropExpired() {
	for id, p := range s.incomplete {
		if time.Since(p.since) > creationTimeout {
			delete(s.incomplete, id)
			s.end(p, fmt.Errorf("the client did not open both streams within %v", creationTimeout))
		}
	}
}

// add matches a stream with the other one of its connection, and forwards the
// connection when both are open.
func (s *forwardSession) add(stream httpstream.Stream) {
	kind, id := stream.Headers().Get(v1.StreamType), stream.Headers().Get(v1.PortForwardRequestIDHeader)
	if id == "" {
		s.rejectWithoutID(stream, kind)
		return
	}
	p := s.incomplete[id]
	if p == nil {
		if len(s.incomplete) >= maxForwarded {
			s.cancel(errors.New("too many incomplete connections"))
			return
		}
		p = &streamPair{since: time.Now()}
		s.incomplete[id] = p
	}
	switch {
	case kind == v1.StreamTypeData && p.data == nil:
		p.data = stream
	case kind == v1.StreamTypeError && p.errors == nil:
		p.errors = stream
	default:
		s.resetStream(stream)
		return
	}
	if p.data == nil || p.errors == nil {
		return
	}
	delete(s.incomplete, id)
	select {
	case s.slots <- struct{}{}:
	default:
		s.end(p, fmt.Errorf("too many connections: %d are already forwarded", maxForwarded))
		return
	}
	total := s.total()
	if total == nil {
		<-s.slots
		s.end(p, fmt.Errorf("too many connections: %d are already forwarded by all sessions", maxForwardedTotal))
		return
	}
	s.forwards.Go(func() {
		defer func() { <-s.slots; <-total }()
		s.end(p, s.forward(p))
	})
}

// total takes a slot in addition to that of the session and returns its channel, nil if none is free.
func (s *forwardSession) total() chan struct{} {
	select {
	case s.own <- struct{}{}:
		return s.own
	default:
	}
	select {
	case forwarded <- struct{}{}:
		return forwarded
	default:
		return nil
	}
}

// rejectWithoutID drops a stream without a request ID, which clients send since
// Kubernetes 1.2.
func (s *forwardSession) rejectWithoutID(stream httpstream.Stream, kind string) {
	p := &streamPair{data: stream}
	if kind == v1.StreamTypeError {
		p = &streamPair{errors: stream}
	}
	s.end(p, fmt.Errorf("unsupported stream: the header %s is missing", v1.PortForwardRequestIDHeader))
}

// forward carries one connection.
func (s *forwardSession) forward(p *streamPair) error {
	text := p.data.Headers().Get(v1.PortHeader)
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("invalid port %q: must be a number from 1 to 65535", text)
	}
	// A pod that does not respond does not use up what all sessions have.
	if _, err := awaitDial(s.ctx, nil, s.dialing); err != nil {
		return err
	}
	to, err := s.dial(s.ctx, uint16(port))
	<-s.dialing
	if err != nil {
		return err
	}
	sent := make(chan struct{})
	defer func() { <-sent }()
	defer func() { _ = p.data.Reset() }() // ends the reads of the other direction
	defer to.Abort()
	defer context.AfterFunc(s.ctx, to.Abort)()
	go func() {
		defer close(sent)
		g := newStallGuard(to, func() bool {
			_, err := p.data.Write(nil) // see spdyClient.alive
			return err == nil && !peerClosed(s.conn.NetConn())
		}, func() { s.cancel(errClientGone) }, stallCheckInterval)
		if s.copy(g, p.data) == nil {
			_ = to.CloseWrite()
		}
	}()
	if err := s.copy(p.data, to); err != nil {
		return nil // the client has disconnected
	}
	if err := to.Err(); err != nil {
		return err
	}
	_ = p.data.Close()
	if to.SupportsHalfClose() {
		// Until the client has closed its half, or the pod does not read any more.
		<-sent
	}
	return nil
}

// copy is io.Copy in chunks, each of which resets the idle timer.
func (s *forwardSession) copy(to io.Writer, from io.Reader) error {
	next := chunks(from, chunkSize)
	for {
		b, err := next()
		if len(b) > 0 {
			if _, err := to.Write(b); err != nil {
				return err
			}
			if s.idleTimer != nil {
				s.idleTimer.Reset(s.idle)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// end closes both streams of a connection, the error stream after the error.
func (s *forwardSession) end(p *streamPair, err error) {
	if p.errors != nil {
		if err != nil {
			_, _ = io.WriteString(p.errors, err.Error())
		}
		_ = p.errors.Close()
	}
	for _, stream := range []httpstream.Stream{p.data, p.errors} {
		if stream != nil {
			s.resetStream(stream)
		}
	}
}

// resetStream resets a stream. What the client still sends on it is ignored.
func (s *forwardSession) resetStream(stream httpstream.Stream) {
	_ = stream.Reset()
	s.conn.RemoveStreams(stream)
}
