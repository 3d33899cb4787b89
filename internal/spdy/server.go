package spdy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	kspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// IsUpgradeRequest reports whether the request asks for an upgrade to SPDY/3.1.
func IsUpgradeRequest(r *http.Request) bool {
	return httpstream.IsUpgradeRequest(r) && strings.EqualFold(r.Header.Get(httpstream.HeaderUpgrade), kspdy.HeaderSpdy31)
}

// Negotiate returns the first of the client's protocols that is supported.
func Negotiate(r *http.Request, supported ...string) (string, error) {
	var requested []string
	for _, line := range r.Header.Values(httpstream.HeaderProtocolVersion) {
		for _, p := range strings.Split(line, ",") {
			if p = strings.TrimSpace(p); slices.Contains(supported, p) {
				return p, nil
			}
			requested = append(requested, p)
		}
	}
	return "", fmt.Errorf("unsupported stream protocol %q; supported in the header %s: %s",
		strings.Join(requested, ", "), httpstream.HeaderProtocolVersion, strings.Join(supported, ", "))
}

// Accept serves the request with the upgrade to a protocol that Negotiate returned, and
// calls NewServer. After an error nothing can be served any more.
func Accept(w http.ResponseWriter, protocol string, limits Limits, accept func(httpstream.Stream)) (*Conn, error) {
	w.Header().Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	w.Header().Set(httpstream.HeaderUpgrade, kspdy.HeaderSpdy31)
	w.Header().Set(httpstream.HeaderProtocolVersion, protocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	// The deadlines of the HTTP server are made for short responses.
	if err := conn.SetDeadline(time.Time{}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return NewServer(conn, buffered.Reader, protocol, limits, accept), nil
}
