package spdy

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/moby/spdystream"
	"github.com/moby/spdystream/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// replyTimeout limits the wait for the other side to accept a stream.
const replyTimeout = 30 * time.Second

// streams is a connection with its streams. Unlike that of k8s.io/streaming, it limits
// what the other side can make it keep.
type streams struct {
	*spdystream.Connection
	// limit is the maximum number of streams that the other side may open.
	limit int
	// exceeded is called when it opens more.
	exceeded func()

	mu  sync.Mutex
	all map[uint32]httpstream.Stream
}

// newStreams serves a connection. accept is called for each stream that the other side
// opens, and must not block.
func newStreams(raw *rawConn, server bool, limit int, accept func(httpstream.Stream)) (*streams, error) {
	conn, err := spdystream.NewConnectionWithOptions(raw, server, spdy.WithMaxHeaderCount(maxHeaders), spdy.WithMaxHeaderFieldSize(maxHeader))
	if err != nil {
		return nil, err
	}
	s := &streams{Connection: conn, limit: limit, exceeded: func() { _ = raw.Conn.Close() }, all: map[uint32]httpstream.Stream{}}
	go conn.Serve(func(stream *spdystream.Stream) {
		if !s.add(stream, limit) {
			s.exceeded()
			return
		}
		accept(stream)
		_ = stream.SendReply(http.Header{}, false)
	})
	return s, nil
}

// add registers a stream, unless there are already limit streams; 0 means no limit.
func (s *streams) add(stream httpstream.Stream, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit > 0 && len(s.all) >= limit {
		return false
	}
	s.all[stream.Identifier()] = stream
	return true
}

// CreateStream implements httpstream.Connection.
func (s *streams) CreateStream(headers http.Header) (httpstream.Stream, error) {
	stream, err := s.Connection.CreateStream(headers, nil, false)
	if err == nil {
		err = stream.WaitTimeout(replyTimeout)
	}
	if err != nil {
		return nil, err
	}
	s.add(stream, 0)
	return stream, nil
}

// RemoveStreams implements httpstream.Connection: it forgets streams that have ended.
func (s *streams) RemoveStreams(ended ...httpstream.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stream := range ended {
		if stream != nil {
			delete(s.all, stream.Identifier())
		}
	}
}

// Close implements httpstream.Connection. It resets the streams first, because spdystream
// waits for them to end.
func (s *streams) Close() error {
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.all))
	clear(s.all)
	s.mu.Unlock()
	for _, stream := range open {
		_ = stream.Reset()
	}
	return s.Connection.Close()
}
