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

// Asked says whether the request asks to become SPDY.
func Asked(r *http.Request) bool {
	return httpstream.IsUpgradeRequest(r) && strings.EqualFold(r.Header.Get(httpstream.HeaderUpgrade), kspdy.HeaderSpdy31)
}

// Agree is the first of the client's protocols that is known.
func Agree(r *http.Request, known ...string) (string, error) {
	var asked []string
	for _, line := range r.Header.Values(httpstream.HeaderProtocolVersion) {
		for _, p := range strings.Split(line, ",") {
			if p = strings.TrimSpace(p); slices.Contains(known, p) {
				return p, nil
			}
			asked = append(asked, p)
		}
	}
	return "", fmt.Errorf("no stream protocol of %q is known; the header %s must name one of %s",
		asked, httpstream.HeaderProtocolVersion, strings.Join(known, ", "))
}

// Accept answers the request with the upgrade to a protocol that Agree gave.
// The rest is as in NewServer. After an error nothing more can be
// answered.
func Accept(w http.ResponseWriter, protocol string, accept func(httpstream.Stream)) (*Conn, error) {
	w.Header().Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	w.Header().Set(httpstream.HeaderUpgrade, kspdy.HeaderSpdy31)
	w.Header().Set(httpstream.HeaderProtocolVersion, protocol)
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	// The server's limits are for short answers.
	if err := conn.SetDeadline(time.Time{}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return NewServer(conn, buffered.Reader, protocol, accept)
}
