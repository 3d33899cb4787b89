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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/internal/spdy"
)

const (
	protocolForward = "portforward.k8s.io"
	protocolTunnel  = "SPDY/3.1+" + protocolForward
	// maxForwarded is how many connections go through one session at once; each
	// costs a dozen goroutines.
	maxForwarded = 512
)

// Forward is one session of port forwarding, through which any number of
// connections go one after the other or at once.
type Forward struct {
	// Dial connects to a port of the pod. Its errors are for the client.
	Dial func(ctx context.Context, port uint16) (Port, error)
	// Idle ends a session in which nothing moved for so long; 0 never.
	Idle time.Duration
}

// Port is a connection to a port of a pod.
type Port interface {
	io.ReadWriter
	// CloseWrite tells the other side that no more comes.
	CloseWrite() error
	// Abort ends it, and the calls under way.
	Abort()
	// Halves says that the other direction may go on after reading came to the
	// end.
	Halves() bool
	// Err is why it ended, once reading came to the end; nil if it ended well.
	Err() error
}

// Serve answers a request to forward ports, and returns when the session is
// over and everything of it has ended.
func (f Forward) Serve(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(errOver)
	s := &forwarding{ctx: ctx, cancel: cancel, dial: f.Dial, idle: f.Idle, opened: make(chan httpstream.Stream, maxForwarded), pairs: map[string]*pair{}}
	var err error
	switch {
	case webSocketAsked(r):
		ws, e := upgradeWebSocket(w, r, []string{protocolTunnel})
		if e != nil {
			return nil
		}
		t := &tunnel{Conn: ws}
		s.conn, err = spdy.NewServer(t, bufio.NewReaderSize(t, chunk), protocolForward, s.accept)
	case spdy.Asked(r):
		protocol, e := spdy.Agree(r, protocolForward)
		if e != nil {
			fail(w, failure(http.StatusForbidden, metav1.StatusReasonForbidden, "%v", e))
			return nil
		}
		s.conn, err = spdy.Accept(w, protocol, s.accept)
	default:
		fail(w, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "this needs a request that asks to become SPDY/3.1 or a WebSocket with the protocol %s", protocolTunnel))
		return nil
	}
	if err != nil {
		return nil // nothing more can be answered
	}
	return s.run()
}

// forwarding is a session that goes on.
type forwarding struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	dial   func(context.Context, uint16) (Port, error)
	idle   time.Duration
	conn   *spdy.Conn
	timer  *time.Timer
	opened chan httpstream.Stream
	// pairs are the connections whose second stream is still to come.
	pairs map[string]*pair
	all   sync.WaitGroup
	slots chan struct{}
}

// pair are the two streams of a forwarded connection.
type pair struct {
	id          string
	data, fault httpstream.Stream
	since       time.Time
}

// accept takes a stream that the client opens. A client with so many that
// nobody looked at them yet is no kubectl.
func (s *forwarding) accept(stream httpstream.Stream) {
	select {
	case s.opened <- stream:
	default:
		s.cancel(errors.New("too many streams at once"))
	}
}

// run forwards until the client leaves.
func (s *forwarding) run() error {
	if s.idle > 0 {
		s.timer = time.AfterFunc(s.idle, func() { s.cancel(errIdle) })
		defer s.timer.Stop()
	}
	s.slots = make(chan struct{}, maxForwarded)
	stop := context.AfterFunc(s.ctx, s.conn.Abort)
	defer stop()
	defer s.conn.Abort()
	defer s.all.Wait()
	defer s.cancel(errOver)
	late := time.NewTicker(creationTimeout)
	defer late.Stop()
	for {
		select {
		case <-s.conn.CloseChan():
			return errGone
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-late.C:
			s.dropLate()
		case stream := <-s.opened:
			s.add(stream)
		}
	}
}

// dropLate gives up connections whose second stream does not come.
func (s *forwarding) dropLate() {
	for id, p := range s.pairs {
		if time.Since(p.since) > creationTimeout {
			delete(s.pairs, id)
			s.end(p, fmt.Errorf("the client did not open both streams within %v", creationTimeout))
		}
	}
}

func (s *forwarding) add(stream httpstream.Stream) {
	kind, id := stream.Headers().Get(v1.StreamType), stream.Headers().Get(v1.PortForwardRequestIDHeader)
	if id == "" {
		// Clients before Kubernetes 1.2 open the error stream, then that of the
		// data with the next number.
		n := int(stream.Identifier())
		if kind == v1.StreamTypeData {
			n -= 2
		}
		id = "stream " + strconv.Itoa(n)
	}
	p := s.pairs[id]
	if p == nil {
		if len(s.pairs) >= maxForwarded {
			s.cancel(errors.New("too many half-opened connections"))
			return
		}
		p = &pair{id: id, since: time.Now()}
		s.pairs[id] = p
	}
	switch {
	case kind == v1.StreamTypeData && p.data == nil:
		p.data = stream
	case kind == v1.StreamTypeError && p.fault == nil:
		p.fault = stream
	default:
		s.drop(stream)
		return
	}
	if p.data == nil || p.fault == nil {
		return
	}
	delete(s.pairs, id)
	select {
	case s.slots <- struct{}{}:
		s.all.Go(func() {
			defer func() { <-s.slots }()
			s.end(p, s.forward(p))
		})
	default:
		s.end(p, fmt.Errorf("%d connections are forwarded already", maxForwarded))
	}
}

// forward carries one connection.
func (s *forwarding) forward(p *pair) error {
	text := p.data.Headers().Get(v1.PortHeader)
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("port %q: must be a number from 1 to 65535", text)
	}
	to, err := s.dial(s.ctx, uint16(port))
	if err != nil {
		return err
	}
	up := make(chan struct{})
	defer func() { <-up }()
	defer func() { _ = p.data.Reset() }() // ends the reading of the other direction
	defer to.Abort()
	defer context.AfterFunc(s.ctx, to.Abort)()
	go func() {
		defer close(up)
		g := newGuard(to, func() bool {
			_, err := p.data.Write(nil) // see spdyClient.stalled
			return err == nil && !hungUp(s.conn.Raw())
		}, func() { s.cancel(errGone) }, stallCheck)
		if s.copy(g, p.data) == nil {
			_ = to.CloseWrite()
		}
	}()
	if err := s.copy(p.data, to); err != nil {
		return nil // the client has left
	}
	if err := to.Err(); err != nil {
		return err
	}
	_ = p.data.Close()
	if to.Halves() {
		// Ends with the client's half, or when the pod takes no more.
		<-up
	}
	return nil
}

// copy is io.Copy in chunks that count as movement.
func (s *forwarding) copy(to io.Writer, from io.Reader) error {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
			if s.timer != nil {
				s.timer.Reset(s.idle)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// end ends both streams, the error's after what went wrong.
func (s *forwarding) end(p *pair, err error) {
	if p.fault != nil {
		if err != nil {
			_, _ = io.WriteString(p.fault, err.Error())
		}
		_ = p.fault.Close()
	}
	for _, stream := range []httpstream.Stream{p.data, p.fault} {
		if stream != nil {
			s.drop(stream)
		}
	}
}

// drop forgets a stream, and what the client may still send on it.
func (s *forwarding) drop(stream httpstream.Stream) {
	_ = stream.Reset()
	s.conn.RemoveStreams(stream)
}
