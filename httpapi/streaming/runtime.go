package streaming

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/podstead/podstead/internal/spdy"
)

// dialTimeout limits connecting to the runtime, which runs on this host, and to a port
// of a pod.
const dialTimeout = 10 * time.Second

// dialRuntime connects to the URL that a runtime returned for one session.
func dialRuntime(ctx context.Context, address string, protocols ...string) (*spdy.Conn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the container runtime returned an invalid URL %q: %w", address, err)
	}
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := dialURL(dialing, u)
	if err != nil {
		return nil, fmt.Errorf("failed to connect to the container runtime at %s: %w", u.Host, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return spdy.Upgrade(ctx, conn, r, unread, protocols...)
}

func dialURL(ctx context.Context, u *url.URL) (net.Conn, error) {
	port := u.Port()
	switch u.Scheme {
	case "http":
		if port == "" {
			port = "80"
		}
		return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	case "https":
		if port == "" {
			port = "443"
		}
		return new(tls.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	}
	return nil, fmt.Errorf("unsupported scheme %q: must be http or https", u.Scheme)
}
