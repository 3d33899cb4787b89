package httpapi

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/httpapi/access"
)

// maxConnections is the maximum number of open connections of one listener. A listener uses
// at most a quarter of the files that the daemon may open, because the daemon needs files
// for pods too.
const maxConnections = 4096

// authenticationTimeout limits how long a connection is open before its first request is
// authenticated: a handshake and a header take at most 5 s each, a review by a cluster too.
const authenticationTimeout = 20 * time.Second

// connectionLimits are the limits of one listener; zero values mean no limit.
type connectionLimits struct {
	// total is the maximum number of connections.
	total int
	// perAddress is the maximum number of connections of one client address. An IPv6 client
	// counts by its /64, of which it has all addresses.
	perAddress int
	// pending and pendingPerAddress are the maximum numbers of connections on which no
	// request was authenticated yet. They are open for at most timeout.
	pending, pendingPerAddress int
	timeout                    time.Duration
}

// newConnectionLimits returns the limits for a kind of listener. authenticated reports that clients must
// authenticate.
func newConnectionLimits(perAddress, authenticated bool) connectionLimits {
	total := uint64(maxConnections)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		total = max(16, min(total, files.Cur/4))
	}
	l := connectionLimits{total: int(total)}
	if perAddress {
		l.perAddress = l.total / 2
	}
	if authenticated {
		l.pending, l.pendingPerAddress, l.timeout = l.total/4, max(8, l.total/32), authenticationTimeout
	}
	return l
}

// connections is a listener that limits its open connections. When there are too many, it
// closes the oldest one that is not authenticated, so that idle connections of strangers
// lock out neither the clients that are connected nor new ones. If all are authenticated, it
// closes the new one.
type connections struct {
	net.Listener
	limits connectionLimits

	mu        sync.Mutex
	open      int
	byAddress map[netip.Prefix]*addressConnections
	// pending are the connections that are not authenticated, the oldest first.
	pending list.List
}

// addressConnections counts the connections of one address.
type addressConnections struct{ open, pending int }

func limitConnections(ln net.Listener, limits connectionLimits) *connections {
	return &connections{Listener: ln, limits: limits, byAddress: map[netip.Prefix]*addressConnections{}}
}

// Accept returns the next connection that the limits admit.
func (l *connections) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &limitedConn{Conn: conn, listener: l, address: clientPrefix(conn.RemoteAddr())}
		admitted, closing := l.add(c)
		for _, old := range closing {
			_ = old.Close()
		}
		if admitted {
			return c, nil
		}
		_ = conn.Close()
	}
}

// add counts a connection, if the limits admit it. The caller closes the returned
// connections, which are not counted any more.
func (l *connections) add(c *limitedConn) (admitted bool, closing []*limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// evict makes space by closing the oldest connection that is not authenticated, of one
	// address if it is valid.
	evict := func(address netip.Prefix) bool {
		for e := l.pending.Front(); e != nil; e = e.Next() {
			if old := e.Value.(*limitedConn); !address.IsValid() || old.address == address {
				l.forget(old)
				closing = append(closing, old)
				return true
			}
		}
		return false
	}
	use := func() addressConnections {
		if n := l.byAddress[c.address]; n != nil {
			return *n
		}
		return addressConnections{}
	}
	over := func(n, limit int) bool { return limit > 0 && n >= limit }
	if over(use().pending, l.limits.pendingPerAddress) {
		evict(c.address)
	}
	if c.address.IsValid() && over(use().open, l.limits.perAddress) && !evict(c.address) {
		return false, closing
	}
	if over(l.pending.Len(), l.limits.pending) {
		evict(netip.Prefix{})
	}
	if over(l.open, l.limits.total) && !evict(netip.Prefix{}) {
		return false, closing
	}
	l.open++
	n := l.byAddress[c.address]
	if n == nil {
		n = &addressConnections{}
		l.byAddress[c.address] = n
	}
	n.open++
	c.counted = true
	if l.limits.timeout > 0 {
		n.pending++
		c.pending = l.pending.PushBack(c)
		c.timer = time.AfterFunc(l.limits.timeout, func() { _ = c.Close() })
	}
	return true, closing
}

// forget stops counting a connection. The caller holds mu.
func (l *connections) forget(c *limitedConn) {
	l.settle(c)
	if !c.counted {
		return
	}
	c.counted = false
	l.open--
	n := l.byAddress[c.address]
	if n.open--; n.open == 0 {
		delete(l.byAddress, c.address)
	}
}

// settle removes a connection from those that are not authenticated. The caller holds mu.
func (l *connections) settle(c *limitedConn) {
	if c.pending == nil {
		return
	}
	l.pending.Remove(c.pending)
	l.byAddress[c.address].pending--
	c.pending = nil
	c.timer.Stop()
}

// clientPrefix returns the address by which connections of a client are counted, the zero
// value for a unix socket.
func clientPrefix(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}

// limitedConn is a connection that its listener counts until it is closed.
type limitedConn struct {
	net.Conn
	listener *connections
	address  netip.Prefix
	// pending and timer are set until the connection is authenticated.
	pending *list.Element
	timer   *time.Timer
	counted bool
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.forget(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// authenticated reports that a request on this connection was authenticated.
func (c *limitedConn) authenticated() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.settle(c)
}

// CloseWrite ends the direction to the client.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SyscallConn implements syscall.Conn.
func (c *limitedConn) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// connection is what is known about the connection of a request.
type connection struct {
	limited *limitedConn
	// certificates keeps what was verified about its client certificates.
	certificates access.Connection
}

type connectionKey struct{}

// withConnection implements http.Server.ConnContext.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if c, ok := conn.(*limitedConn); ok {
		return context.WithValue(ctx, connectionKey{}, &connection{limited: c})
	}
	return ctx
}

// connectionFrom returns the connection of a request, nil if it is unknown.
func connectionFrom(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}
