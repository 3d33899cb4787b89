package cluster

import (
	"context"
	"net"
	"sync"
	"time"
)

// trackedConns are the open connections to the API server. A dead connection
// without a reset, as after a machine or a tunnel on the path went down, would
// block all requests for a minute or more: once it is closed they start again.
type trackedConns struct {
	mu   sync.Mutex
	open map[*trackedConn]bool
}

// The defaults of client-go.
var dialer = net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}

// dial opens a connection.
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

// close closes all open connections; their requests fail.
func (c *trackedConns) close() {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for conn := range open {
		_ = conn.Conn.Close()
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
