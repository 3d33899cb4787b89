package spdy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	kspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

const (
	// upgradeTimeout limits the wait for the response to an upgrade request.
	upgradeTimeout = 30 * time.Second
	// maxErrorBody is the maximum number of bytes read of another response than an upgrade.
	maxErrorBody = 64 << 10
)

// ErrNoProtocol means that the server accepted the upgrade, but none of the protocols.
var ErrNoProtocol = errors.New("the server selected no stream protocol")

// UpgradeError is another response of the server than the upgrade.
type UpgradeError struct {
	// Code is the HTTP status.
	Code int
	// Type is the media type of Body.
	Type string
	Body []byte
}

func (r *UpgradeError) Error() string {
	return fmt.Sprintf("%d %s: %s", r.Code, http.StatusText(r.Code), strings.TrimSpace(string(r.Body)))
}

// Headers returns the headers of a stream from alternating names and values.
func Headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1]) // Set, as CreateStream and Get expect canonical names
	}
	return h
}

// Upgrade sends the request on the connection and upgrades it to SPDY with the first of
// the protocols that the server supports. It takes over the connection, and closes it on
// error. Another response than the upgrade is an *UpgradeError. The budget may be nil.
func Upgrade(ctx context.Context, conn net.Conn, r *http.Request, budget *Budget, protocols ...string) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, err := upgrade(conn, r, budget, protocols)
	if !stop() && err == nil {
		c.Abort()
	}
	if e := context.Cause(ctx); e != nil {
		return nil, e
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

func upgrade(conn net.Conn, r *http.Request, budget *Budget, protocols []string) (*Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(upgradeTimeout)); err != nil {
		return nil, err
	}
	r.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	r.Header.Set(httpstream.HeaderUpgrade, kspdy.HeaderSpdy31)
	for _, p := range protocols {
		r.Header.Add(httpstream.HeaderProtocolVersion, p)
	}
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	buffered := bufio.NewReader(conn)
	response, err := http.ReadResponse(buffered, r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols ||
		!strings.EqualFold(response.Header.Get(httpstream.HeaderUpgrade), kspdy.HeaderSpdy31) {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
		return nil, &UpgradeError{Code: response.StatusCode, Type: response.Header.Get("Content-Type"), Body: body}
	}
	protocol := response.Header.Get(httpstream.HeaderProtocolVersion)
	if protocol == "" {
		return nil, ErrNoProtocol
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	raw := &rawConn{Conn: conn, buffered: buffered}
	// A server opens no streams.
	c := newStreams(raw, false, Limits{Budget: budget}, func(httpstream.Stream) {})
	return &Conn{streams: c, Protocol: protocol, raw: raw}, nil
}
