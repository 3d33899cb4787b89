package streaming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNoNamespace says that a pod's network namespace cannot be entered from
// here; its runtime may still be able to.
var ErrNoNamespace = errors.New("the pod's network namespace cannot be entered")

// DialInside connects to a port of a pod on its loopback address, in the
// network namespace that the file leads to, such as /proc/PID/ns/net. Unlike
// through a runtime, which gives the other direction a second once one has
// ended, each direction ends by itself.
func DialInside(ctx context.Context, namespace string, port uint16) (Port, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialed := make(chan result, 1)
	go func() {
		// The thread is in another namespace from here on, so that it ends with
		// this goroutine: it is never unlocked.
		runtime.LockOSThread()
		conn, err := dialInside(ctx, namespace, port)
		dialed <- result{conn, err}
	}()
	r := <-dialed
	if r.err != nil {
		return nil, r.err
	}
	return &insidePort{TCPConn: r.conn.(*net.TCPConn)}, nil
}

func dialInside(ctx context.Context, namespace string, port uint16) (net.Conn, error) {
	file, err := os.Open(namespace)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNamespace, err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNamespace, os.NewSyscallError("setns", err))
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	// One after the other and by number: a name, or both at once, would be
	// dialed by other goroutines, on threads that are not inside.
	var refused error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
		if err == nil {
			return conn, nil
		}
		if refused == nil || !errors.Is(err, syscall.EADDRNOTAVAIL) {
			refused = err
		}
	}
	if errors.Is(refused, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("nothing listens on port %d in the pod: %w", port, syscall.ECONNREFUSED)
	}
	return nil, fmt.Errorf("cannot connect to port %d in the pod: %w", port, refused)
}

// insidePort is a connection made in the pod's own network namespace.
type insidePort struct {
	*net.TCPConn
	fault atomic.Pointer[error]
}

func (p *insidePort) Read(b []byte) (int, error) {
	n, err := p.TCPConn.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.fault.Store(&err)
	}
	return n, err
}

func (p *insidePort) Abort()       { _ = p.Close() }
func (p *insidePort) Halves() bool { return true }

func (p *insidePort) Err() error {
	if err := p.fault.Load(); err != nil && !errors.Is(*err, net.ErrClosed) {
		return fmt.Errorf("the connection in the pod broke: %w", *err)
	}
	return nil
}
