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
type connections struct {
	mu   sync.Mutex
	open map[*connection]bool
}

// The usual ones of a client of an API server.
var dialer = net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}

// dial opens one.
func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	opened := &connection{Conn: conn, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*connection]bool{}
	}
	c.open[opened] = true
	return opened, nil
}

// close closes all that are open; the requests on them fail.
func (c *connections) close() {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for conn := range open {
		conn.Conn.Close()
	}
}

type connection struct {
	net.Conn
	of *connections
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
