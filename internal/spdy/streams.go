package spdy

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/internal/wakeup"
)

// replyTimeout limits the wait for the other side to accept a stream.
const replyTimeout = 30 * time.Second

// maxPending is the maximum number of bytes of control frames that wait to be written. A
// connection with more, whose other side does not read what it asks for, is closed.
const maxPending = 64 << 10

// smallFrame is the maximum size in bytes of data that is copied into one write with its
// frame.
const smallFrame = 4 << 10

var (
	errReset     = errors.New("stream reset")
	errNoReply   = errors.New("the other side did not accept the stream in time")
	errFinished  = errors.New("write on closed stream")
	errProtocol  = errors.New("unexpected SPDY frame")
	errTooMany   = errors.New("too many streams, or control frames that are not read")
	errExhausted = errors.New("no stream ID is left")
)

// Limits are what the other side of a connection can make this one keep.
type Limits struct {
	// Streams is the maximum number of streams that it may have open; 0 means none. A
	// client that opens more is disconnected.
	Streams int
	// Budget limits what connections keep together; nil means that each has its own limit
	// only (1 MiB).
	Budget *Budget
}

// streams is a connection with its streams. One goroutine reads it. A stream that is not read
// stops all of them when the connection keeps as much as it may.
type streams struct {
	raw    *rawConn
	frames frameReader
	server bool
	limit  int
	accept func(httpstream.Stream)
	closed chan struct{}

	// writing is held while the connection is written; out is the memory of a frame.
	writing sync.Mutex
	out     []byte

	mu sync.Mutex
	account
	open map[uint32]*stream
	// lastID is the ID of the last stream that either side opened.
	lastID uint32
	// closing reports that Close was called, ended that nothing more is read.
	closing, ended bool
	outgoing       outgoing
}

// outgoing are the control frames that a connection sends.
type outgoing struct {
	// pending are to be written before others; flushing reports that a goroutine is going to.
	pending  []byte
	flushing bool
	// headersSent reports that the zlib stream of headers has begun.
	headersSent bool
}

// newStreams serves a connection. accept is called for each stream that the other side
// opens, and must not block.
func newStreams(raw *rawConn, server bool, limits Limits, accept func(httpstream.Stream)) *streams {
	c := &streams{
		raw: raw, frames: frameReader{in: bufio.NewReader(raw)}, server: server, limit: limits.Streams, accept: accept,
		closed: make(chan struct{}), open: map[uint32]*stream{},
		account: account{budget: limits.Budget, changed: wakeup.NewSignal()},
	}
	go c.serve()
	return c
}

// serve reads frames until the connection ends.
func (c *streams) serve() {
	for {
		f, err := c.frames.next()
		if err == nil {
			err = c.handle(f)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			// Nothing of what follows can be understood.
			_ = c.raw.Conn.Close()
		}
		break
	}
	c.mu.Lock()
	c.ended = true
	for _, s := range c.open {
		s.lost = !s.finished
		s.finish()
	}
	c.mu.Unlock()
	close(c.closed)
}

// handle handles a frame.
func (c *streams) handle(f frame) error {
	switch f.kind {
	case 0:
		return c.data(f)
	case frameSynStream:
		return c.opened(f)
	case frameGoAway:
		return io.EOF
	case framePing:
		id, err := c.frames.number()
		if err != nil {
			return err
		}
		if own := id%2 == 0 == c.server; own {
			return nil // a response
		}
		return c.send(framePing, numbers(id))
	case frameSynReply, frameReset:
		if f.kind == frameSynReply && c.server {
			return errProtocol
		}
		id, err := c.frames.number()
		if err == nil {
			_, err = c.frames.in.Discard(f.length - 4) // headers that mean nothing, or the reason
		}
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		s := c.open[id]
		switch {
		case s == nil:
		case f.kind == frameReset:
			s.reset = true
			s.finish()
			c.remove(s)
			s.reply()
		case !s.accepted:
			s.reply()
			if f.flags&flagFinish != 0 {
				s.finish()
			}
		}
		return nil
	}
	_, err := c.frames.in.Discard(f.length)
	return err
}

// opened handles a stream that the other side opens.
func (c *streams) opened(f frame) error {
	id, headers, err := c.frames.open(f)
	if err != nil {
		return err
	}
	s := &stream{c: c, id: id, headers: http.Header{}, replied: make(chan struct{}), cost: streamCost}
	s.readable.L = &c.mu
	for name, values := range headers {
		for _, v := range values {
			s.headers.Add(name, v)
			s.cost += len(name) + len(v)
		}
	}
	for c.mu.Lock(); ; c.mu.Lock() {
		if !c.server || id%2 != 1 || id <= c.lastID || id > maxID {
			c.mu.Unlock()
			return errProtocol
		}
		if c.closing {
			c.mu.Unlock()
			return nil
		}
		if len(c.open) >= c.limit {
			c.mu.Unlock()
			return errTooMany
		}
		if c.reserveStream(s.cost) {
			break
		}
		c.mu.Unlock()
		<-c.changed.C()
	}
	c.lastID = id
	c.open[id] = s
	if s.reply(); f.flags&flagFinish != 0 {
		s.finish()
	}
	// The response precedes what accept sends.
	err = c.enqueue(frameSynReply, appendHeaders(numbers(id), c.beginHeaders(), nil))
	c.mu.Unlock()
	c.accept(s)
	return err
}

// beginHeaders reports whether the next headers are the first ones. The caller holds mu.
func (c *streams) beginHeaders() bool {
	first := !c.outgoing.headersSent
	c.outgoing.headersSent = true
	return first
}

// data handles a data frame: it waits until each part of it may be kept.
func (c *streams) data(f frame) error {
	if f.stream == 0 {
		return errProtocol
	}
	c.mu.Lock()
	s := c.open[f.stream]
	c.mu.Unlock()
	for left := f.length; left > 0; {
		n := min(left, maxChunk)
		left -= n
		if s == nil || !c.await(s, n+chunkCost) {
			if _, err := c.frames.in.Discard(n); err != nil {
				return err
			}
			continue
		}
		b := make([]byte, n)
		_, err := io.ReadFull(c.frames.in, b)
		c.mu.Lock()
		if err != nil || s.finished {
			c.releaseData(n + chunkCost)
		} else {
			s.chunks = append(s.chunks, chunk{b, n + chunkCost})
			s.readable.Broadcast()
		}
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if s != nil && f.flags&flagFinish != 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		s.finish()
		if s.closed {
			c.remove(s)
		}
	}
	return nil
}

// await waits until a stream may keep more bytes. It returns false if the stream has ended.
func (c *streams) await(s *stream, n int) bool {
	for {
		c.mu.Lock()
		ended := s.finished
		taken := !ended && c.reserveData(n)
		c.mu.Unlock()
		if ended || taken {
			return taken
		}
		<-c.changed.C()
	}
}

// remove forgets a stream. The caller holds mu.
func (c *streams) remove(s *stream) {
	if c.open[s.id] == s {
		delete(c.open, s.id)
		c.releaseStream(s.cost)
	}
}

// enqueue lets a control frame be written without waiting for it. The caller holds mu.
func (c *streams) enqueue(kind uint16, payload []byte) error {
	if len(c.outgoing.pending) > maxPending {
		return errTooMany
	}
	c.outgoing.pending = appendControl(c.outgoing.pending, kind, payload...)
	if !c.outgoing.flushing {
		c.outgoing.flushing = true
		go func() { _ = c.write(0, nil, 0, false) }()
	}
	return nil
}

// send is enqueue for callers without mu.
func (c *streams) send(kind uint16, payload []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enqueue(kind, payload)
}

// write writes the pending control frames, and a data frame if data is true.
func (c *streams) write(id uint32, b []byte, flags byte, data bool) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	c.out = append(c.out[:0], c.outgoing.pending...)
	c.outgoing.pending, c.outgoing.flushing = c.outgoing.pending[:0], false
	c.mu.Unlock()
	if data {
		c.out = appendData(c.out, id, flags, len(b))
	}
	// Small frames are one packet; more is not copied.
	if len(b) <= smallFrame {
		c.out, b = append(c.out, b...), nil
	}
	if len(c.out) > 0 {
		_, err := c.raw.Conn.Write(c.out)
		if cap(c.out) > 2*smallFrame {
			c.out = nil
		}
		if err != nil {
			return err
		}
	}
	if len(b) > 0 {
		_, err := c.raw.Conn.Write(b)
		return err
	}
	return nil
}

// CreateStream opens a stream and waits until the other side has accepted it or the
// connection has ended.
func (c *streams) CreateStream(headers http.Header) (httpstream.Stream, error) {
	s := &stream{c: c, headers: headers, replied: make(chan struct{})}
	s.readable.L = &c.mu
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil, errClosed
	}
	if c.lastID++; c.lastID%2 == 0 {
		c.lastID++
	}
	if s.id = c.lastID; s.id > maxID {
		c.mu.Unlock()
		return nil, errExhausted
	}
	c.open[s.id] = s
	payload := append(numbers(s.id, 0), 0, 0)
	err := c.enqueue(frameSynStream, appendHeaders(payload, c.beginHeaders(), headers))
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(replyTimeout)
	defer timeout.Stop()
	select {
	case <-s.replied:
	case <-c.closed:
	case <-timeout.C:
		return nil, errNoReply
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.accepted && !s.reset:
		return s, nil
	case s.reset:
		return nil, errReset
	}
	return nil, errClosed
}

// RemoveStreams forgets streams that have ended.
func (c *streams) RemoveStreams(ended ...httpstream.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range ended {
		if s, ok := s.(*stream); ok && s != nil {
			c.remove(s)
		}
	}
}

// CloseChan returns a channel that is closed when nothing more is read from the connection.
func (c *streams) CloseChan() <-chan struct{} { return c.closed }

// Close resets all streams and ends the direction to the other side.
func (c *streams) Close() error {
	c.mu.Lock()
	for _, s := range slices.Collect(maps.Values(c.open)) {
		s.end()
	}
	c.closing = true
	c.account.close()
	lastID := c.lastID
	if !c.server {
		lastID = 0
	}
	_ = c.enqueue(frameGoAway, numbers(lastID, 0))
	c.mu.Unlock()
	err := c.write(0, nil, 0, false)
	return errors.Join(err, c.raw.Close())
}
