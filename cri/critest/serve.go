package critest

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc/test/bufconn"
)

// network is the connections of a fake.
type network struct {
	memory *bufconn.Listener

	mu      sync.Mutex
	down    bool
	conns   map[*conn]struct{}
	serving sync.WaitGroup
}

// errDown is the error of dialing a runtime that is down.
var errDown = errors.New("connect: connection refused")

func (f *Fake) serveMemory() {
	f.net.conns = map[*conn]struct{}{}
	f.net.memory = bufconn.Listen(256 << 10)
	f.serve(f.net.memory)
}

func (f *Fake) serve(l net.Listener) {
	f.net.serving.Go(func() {
		// It ends with Stop; no other error can be reported here.
		_ = f.grpc.Serve(&listener{Listener: l, net: &f.net})
	})
}

func (f *Fake) dialMemory(ctx context.Context, _ string) (net.Conn, error) {
	f.net.mu.Lock()
	down := f.net.down
	f.net.mu.Unlock()
	if down {
		return nil, errDown
	}
	return f.net.memory.DialContext(ctx)
}

// ServeUnix also serves on a unix socket, until Close, for a client in another
// process. An existing socket is replaced.
func (f *Fake) ServeUnix(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	f.serve(l)
	return nil
}

// Disconnect breaks every connection. Clients may reconnect at once.
func (f *Fake) Disconnect() { f.net.disconnect() }

// Down stops the runtime: connections break and new ones are refused. Containers
// keep running, and may Exit, as with a containerd that is down.
func (f *Fake) Down() {
	f.net.mu.Lock()
	f.net.down = true
	f.net.mu.Unlock()
	f.net.disconnect()
}

// Up starts the runtime again after Down.
func (f *Fake) Up() {
	f.net.mu.Lock()
	f.net.down = false
	f.net.mu.Unlock()
}

func (n *network) disconnect() {
	n.mu.Lock()
	conns := n.conns
	n.conns = map[*conn]struct{}{}
	n.mu.Unlock()
	for c := range conns {
		_ = c.Conn.Close()
	}
}

func (n *network) wait() { n.serving.Wait() }

// listener tracks its connections, so that they can be broken.
type listener struct {
	net.Listener
	net *network
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, net: l.net}
		l.net.mu.Lock()
		down := l.net.down
		if !down {
			l.net.conns[c] = struct{}{}
		}
		l.net.mu.Unlock()
		if !down {
			return c, nil
		}
		_ = raw.Close()
	}
}

type conn struct {
	net.Conn
	net *network
}

func (c *conn) Close() error {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	c.net.mu.Unlock()
	return c.Conn.Close()
}
