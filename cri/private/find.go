package private

import (
	"context"
	"net"
	"strings"
	"time"
)

// UsualSockets are where containerd, CRI-O and cri-dockerd listen by default,
// in the order in which they are tried.
var UsualSockets = []string{
	"/run/containerd/containerd.sock",
	"/run/crio/crio.sock",
	"/run/cri-dockerd.sock",
}

// dialTimeout limits the check of one socket. A live runtime accepts at once.
const dialTimeout = time.Second

// Find returns the endpoint of the first socket on which a runtime accepts
// connections, as unix:///path.
func Find(ctx context.Context, sockets []string) (endpoint string, found bool) {
	for _, s := range sockets {
		if Answers(ctx, s) {
			return "unix://" + s, true
		}
	}
	return "", false
}

// Answers reports whether something accepts connections on the socket.
func Answers(ctx context.Context, socket string) bool {
	c, err := dial(ctx, socket)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func dial(ctx context.Context, socket string) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}
