package httpapi

import (
	"bufio"
	"net"
	"net/http"
	"testing"
	"time"
)

// browse sends a request over the socket or a port without TLS, with a Host header and, unless
// it is empty, an Origin header.
func browse(t *testing.T, network, address, method, path, host, origin string) int {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://podstead"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

func TestForeignSitesAreRefusedWithoutTLS(t *testing.T) {
	b := newTestServer(t)
	b.cfg.ReadOnlyAddress = "127.0.0.1:0"
	b.cfg.Remote.Names = func() []string { return []string{"edge", "edge.example.com"} }
	b.start()
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{"podstead", "", 200},
		{"localhost:8001", "", 200},
		{"127.0.0.1:8001", "", 200},
		{"[::1]:8001", "", 200},
		{"[fe80::1]", "", 200},
		{"Edge.Example.com.:10255", "", 200},
		{"app.localhost", "", 200},
		{"localhost:8001", "http://localhost:8001", 200},
		// A page whose DNS name was pointed at this address.
		{"evil.example:8001", "", 403},
		{"evil.example:8001", "http://evil.example:8001", 403},
		{"127.0.0.1.evil.example", "", 403},
		{"localhost.evil.example", "", 403},
		// Another page, and one without an origin, as in a file or a sandboxed frame.
		{"localhost:8001", "http://evil.example", 403},
		{"localhost:8001", "http://localhost:3000", 403},
		{"127.0.0.1:8001", "http://localhost:8001", 403},
		{"localhost:8001", "null", 403},
	} {
		if got := browse(t, "unix", b.cfg.Socket, "GET", "/pods", c.host, c.origin); got != c.want {
			t.Errorf("socket: Host %q, Origin %q: %d, want %d", c.host, c.origin, got, c.want)
		}
		if got := browse(t, "tcp", b.readOnlyAddress, "GET", "/pods", c.host, c.origin); got != c.want {
			t.Errorf("read-only port: Host %q, Origin %q: %d, want %d", c.host, c.origin, got, c.want)
		}
	}
	// A form of another site changes nothing.
	if got := browse(t, "unix", b.cfg.Socket, "POST", "/podstead/v1/images/prune", "localhost:8001",
		"http://evil.example"); got != 403 {
		t.Errorf("POST from another site: %d, want 403", got)
	}
}

// An API server passes on the Origin of its clients. They authenticate.
func TestOriginOverTLS(t *testing.T) {
	b := newTestServer(t).withTokens().start()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+b.tlsAddress+"/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://dashboard.example.com")
	r.Header.Set("Authorization", "Bearer "+readerToken)
	response, err := b.client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("GET /pods with an Origin: %s", response.Status)
	}
}
