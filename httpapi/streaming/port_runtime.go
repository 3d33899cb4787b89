package streaming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/podstead/podstead/internal/spdy"
)

// maxForwardError is the maximum size in bytes of a runtime's error for one connection.
const maxForwardError = 64 << 10

// dialPortViaRuntime connects to a port of a pod through the runtime, at the URL that
// the runtime returned. Each connection has a session of its own, so that none blocks
// another.
func dialPortViaRuntime(ctx context.Context, url string, port uint16) (PortConn, error) {
	conn, err := dialRuntime(ctx, url, protocolForward)
	if err != nil {
		return nil, errors.New(describeRuntimeError(err))
	}
	p := &runtimePort{conn: conn, errorRead: make(chan struct{})}
	open := func(kind string) (s httpstream.Stream) {
		if err == nil {
			s, err = conn.Open(v1.StreamType, kind, v1.PortHeader, strconv.Itoa(int(port)), v1.PortForwardRequestIDHeader, "0")
		}
		return s
	}
	errorStream := open(v1.StreamTypeError)
	p.Stream = open(v1.StreamTypeData)
	if err != nil {
		conn.Abort()
		return nil, fmt.Errorf("failed to start the session with the container runtime: %w", err)
	}
	_ = errorStream.Close() // it is only read
	go func() {
		defer close(p.errorRead)
		text, _ := io.ReadAll(io.LimitReader(errorStream, maxForwardError))
		if len(text) > 0 {
			p.err = errors.New(strings.TrimSpace(string(text)))
		}
	}()
	return p, nil
}

// runtimePort is a connection through the runtime.
type runtimePort struct {
	httpstream.Stream
	conn *spdy.Conn
	// errorRead is closed when err is set.
	errorRead chan struct{}
	err       error
}

func (p *runtimePort) CloseWrite() error       { return p.Close() }
func (p *runtimePort) Abort()                  { p.conn.Abort() }
func (p *runtimePort) SupportsHalfClose() bool { return false }

// Err waits for the runtime, which sends its error before it closes the stream.
func (p *runtimePort) Err() error {
	<-p.errorRead
	return p.err
}
