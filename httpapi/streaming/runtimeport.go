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

// maxFault bounds what a runtime tells of a connection that failed.
const maxFault = 64 << 10

// DialPort connects to a port of a pod through the runtime, at the address
// that it gave for this. Each connection has one of its own, so that none waits
// for another.
func DialPort(ctx context.Context, address string, port uint16) (Port, error) {
	conn, err := dialRuntime(ctx, address, protocolForward)
	if err != nil {
		return nil, errors.New(plain(err))
	}
	p := &runtimePort{conn: conn, told: make(chan struct{})}
	open := func(kind string) (s httpstream.Stream) {
		if err == nil {
			s, err = conn.Open(v1.StreamType, kind, v1.PortHeader, strconv.Itoa(int(port)), v1.PortForwardRequestIDHeader, "0")
		}
		return s
	}
	fault := open(v1.StreamTypeError)
	p.Stream = open(v1.StreamTypeData)
	if err != nil {
		conn.Abort()
		return nil, fmt.Errorf("cannot begin the session with the container runtime: %w", err)
	}
	_ = fault.Close() // nothing is written to it
	go func() {
		defer close(p.told)
		text, _ := io.ReadAll(io.LimitReader(fault, maxFault))
		if len(text) > 0 {
			p.fault = errors.New(strings.TrimSpace(string(text)))
		}
	}()
	return p, nil
}

// runtimePort is a connection through the runtime.
type runtimePort struct {
	httpstream.Stream
	conn  *spdy.Conn
	told  chan struct{}
	fault error
}

func (p *runtimePort) CloseWrite() error { return p.Close() }
func (p *runtimePort) Abort()            { p.conn.Abort() }
func (p *runtimePort) Halves() bool      { return false }

// Err waits for the runtime, which tells what went wrong before it ends.
func (p *runtimePort) Err() error {
	<-p.told
	return p.fault
}
