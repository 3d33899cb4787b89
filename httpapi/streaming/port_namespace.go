package streaming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/podstead/podstead/internal/netns"
)

// errNamespaceUnavailable means that this process cannot enter the pod's network
// namespace. The runtime may still be able to.
var errNamespaceUnavailable = errors.New("cannot enter the pod's network namespace")

// Sandboxes is the runtime as DialPort asks it. Implemented by cri.Client.
type Sandboxes interface {
	// NetworkNamespace returns the path of the network namespace of a sandbox; an error if the runtime does
	// not report it.
	NetworkNamespace(ctx context.Context, id string) (path string, err error)
	// PortForward returns the URL of a session with a port of a sandbox.
	PortForward(ctx context.Context, id string, ports ...int32) (url string, err error)
}

// DialPort connects to a port of a sandbox. It enters the sandbox's network namespace itself, and uses the
// runtime's port forwarding where that is not possible.
func DialPort(ctx context.Context, runtime Sandboxes, sandbox string, port uint16) (PortConn, error) {
	if namespace, err := runtime.NetworkNamespace(ctx, sandbox); err == nil {
		p, err := dialPortInNamespace(ctx, namespace, port)
		if !errors.Is(err, errNamespaceUnavailable) {
			return p, err
		}
	}
	address, err := runtime.PortForward(ctx, sandbox, int32(port))
	if err != nil {
		return nil, err
	}
	return dialPortViaRuntime(ctx, address, port)
}

// dialPortInNamespace connects to a port of a pod on its loopback address, in the network
// namespace at the given path, such as /proc/PID/ns/net. Each direction closes on its
// own, whereas a runtime closes the second direction one second after the first.
func dialPortInNamespace(ctx context.Context, namespace string, port uint16) (PortConn, error) {
	if ctx.Value(localKey{}) == nil {
		own, _ := ctx.Value(ownDialsKey{}).(chan struct{})
		taken, err := awaitDial(ctx, own, dialing)
		if err != nil {
			return nil, err
		}
		defer func() { <-taken }()
	}
	var conn net.Conn
	var err error
	if entering := netns.Do(namespace, func() { conn, err = dialLoopback(ctx, port) }); entering != nil {
		return nil, fmt.Errorf("%w: %w", errNamespaceUnavailable, entering)
	}
	if err != nil {
		return nil, err
	}
	return &namespacePort{TCPConn: conn.(*net.TCPConn)}, nil
}

func dialLoopback(ctx context.Context, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	// One address after the other and by number: a name, or both at once, would be dialed
	// by other goroutines, on threads in the host's namespace.
	var dialErr error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
		if err == nil {
			return conn, nil
		}
		if dialErr == nil || !errors.Is(err, syscall.EADDRNOTAVAIL) {
			dialErr = err
		}
	}
	if errors.Is(dialErr, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("nothing listens on port %d in the pod: %w", port, syscall.ECONNREFUSED)
	}
	return nil, fmt.Errorf("failed to connect to port %d in the pod: %w", port, dialErr)
}

// namespacePort is a connection made in the pod's network namespace.
type namespacePort struct {
	*net.TCPConn
	err atomic.Pointer[error]
}

func (p *namespacePort) Read(b []byte) (int, error) {
	n, err := p.TCPConn.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err.Store(&err)
	}
	return n, err
}

func (p *namespacePort) Abort()                  { _ = p.Close() }
func (p *namespacePort) SupportsHalfClose() bool { return true }

func (p *namespacePort) Err() error {
	if err := p.err.Load(); err != nil && !errors.Is(*err, net.ErrClosed) {
		return fmt.Errorf("the connection in the pod failed: %w", *err)
	}
	return nil
}
