package spdy

import (
	"io"
	"net/http"
	"sync"
)

// chunk is a part of what was received, and what it costs.
type chunk struct {
	data []byte
	cost int
}

// stream is one stream of a connection. The connection's mu guards it.
type stream struct {
	c       *streams
	id      uint32
	headers http.Header
	cost    int
	// replied is closed when the stream was accepted or has ended.
	replied  chan struct{}
	accepted bool
	// chunks were received and not read.
	chunks   []chunk
	readable sync.Cond
	// finished reports that nothing more is received, closed that nothing more is sent.
	finished, closed bool
	// reset reports that the other side ended the stream, lost that the connection ended
	// before the stream.
	reset, lost bool
}

// reply records that the other side has responded.
func (s *stream) reply() {
	if !s.accepted {
		s.accepted = true
		close(s.replied)
	}
}

// finish records that nothing more is received.
func (s *stream) finish() {
	s.finished = true
	s.readable.Broadcast()
}

// end ends both directions and drops what was not read.
func (s *stream) end() {
	for _, ch := range s.chunks {
		s.c.releaseData(ch.cost)
	}
	s.chunks, s.lost = nil, false
	s.finish()
	s.c.changed.Notify() // what arrives now is dropped
	if !s.closed && !s.reset {
		_ = s.c.enqueue(frameReset, numbers(s.id, statusCancel))
	}
	s.closed = true
	s.c.remove(s)
}

// Next returns the next bytes that were received. After an orderly end of the stream the
// error is io.EOF, after a loss of the connection io.ErrUnexpectedEOF.
func (s *stream) Next() ([]byte, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if err := s.wait(); err != nil {
		return nil, err
	}
	b := s.chunks[0].data
	s.removeChunk()
	return b, nil
}

// Read implements io.Reader. See Next.
func (s *stream) Read(b []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if err := s.wait(); err != nil {
		return 0, err
	}
	first := &s.chunks[0]
	n := copy(b, first.data)
	if first.data = first.data[n:]; len(first.data) == 0 {
		s.removeChunk()
	}
	return n, nil
}

// wait waits for bytes. The caller holds mu.
func (s *stream) wait() error {
	for len(s.chunks) == 0 {
		switch {
		case s.lost:
			return io.ErrUnexpectedEOF
		case s.finished:
			return io.EOF
		}
		s.readable.Wait()
	}
	return nil
}

// removeChunk drops the first chunk, which was read.
func (s *stream) removeChunk() {
	s.c.releaseData(s.chunks[0].cost)
	s.chunks[0] = chunk{}
	s.chunks = s.chunks[1:]
}

// Write implements io.Writer. An empty write sends an empty frame, also after Close.
func (s *stream) Write(b []byte) (int, error) {
	s.c.mu.Lock()
	reset, closed := s.reset, s.closed && len(b) > 0
	s.c.mu.Unlock()
	switch {
	case reset:
		return 0, errReset
	case closed:
		return 0, errFinished
	}
	if err := s.c.write(s.id, b, 0, true); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close ends the sending.
func (s *stream) Close() error {
	s.c.mu.Lock()
	if s.closed || s.reset {
		s.c.mu.Unlock()
		return errFinished
	}
	s.closed = true
	if s.finished {
		s.c.remove(s)
	}
	s.c.mu.Unlock()
	return s.c.write(s.id, nil, flagFinish, true)
}

// Reset ends both directions. It does not wait for the other side.
func (s *stream) Reset() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.end()
	return nil
}

// Headers returns the headers with which the stream was opened.
func (s *stream) Headers() http.Header { return s.headers }

// Identifier returns the stream's ID.
func (s *stream) Identifier() uint32 { return s.id }
