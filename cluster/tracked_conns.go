package cluster

import (
	"context"
	"net"
	"sync"
	"time"
)

// connections are those to the API server. One that is dead without a word, as
// after a machine or a tunnel on the way went down, would hold all requests
// up for a minute or more: closed, they begin anew at once.
type trackedConns struct {
	mu   sync.Mutex
	open map[*trackedConn]bool
}

// The usual ones of a client of an API server.
var dialer = net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}

// dial opens one.
func (c *trackedConns) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	opened := &trackedConn{Conn: conn, conns: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*trackedConn]bool{}
	}
	c.open[opened] = true
	return opened, nil
}

// close closes all that are open; the requests on them fail.
func (c *trackedConns) close() {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for conn := range open {
		conn.Conn.Close()
	}
}

type trackedConn struct {
	net.Conn
	conns *trackedConns
}

func (c *trackedConn) Close() error {
	c.conns.mu.Lock()
	delete(c.conns.open, c)
	c.conns.mu.Unlock()
	return c.Conn.Close()
}
