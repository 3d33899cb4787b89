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
	// upgradeTimeout bounds the answer to the request to upgrade.
	upgradeTimeout = 30 * time.Second
	// maxRefusal bounds what is read of an answer that is no upgrade.
	maxRefusal = 64 << 10
)

// ErrNoProtocol says that the other side took the upgrade and none of the
// protocols.
var ErrNoProtocol = errors.New("the server agreed on no stream protocol")

// Refusal is an answer other than an upgrade.
type Refusal struct {
	// Code is the HTTP status.
	Code int
	// Type is the media type of the body.
	Type string
	Body []byte
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%d %s: %s", r.Code, http.StatusText(r.Code), strings.TrimSpace(string(r.Body)))
}

// Headers are headers of a stream, given as names and values in turn.
func Headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1]) // gives names the form that Set and Get agree on
	}
	return h
}

// Upgrade sends the request on the connection and makes it one of SPDY that
// speaks one of the protocols, the first the server knows. It takes the
// connection over: after an error it is closed. An answer other than an
// upgrade is a *Refusal.
func Upgrade(ctx context.Context, conn net.Conn, r *http.Request, protocols ...string) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, err := upgrade(conn, r, protocols)
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

func upgrade(conn net.Conn, r *http.Request, protocols []string) (*Conn, error) {
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
	answer, err := http.ReadResponse(buffered, r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols || !strings.EqualFold(answer.Header.Get(httpstream.HeaderUpgrade), kspdy.HeaderSpdy31) {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
		return nil, &Refusal{Code: answer.StatusCode, Type: answer.Header.Get("Content-Type"), Body: body}
	}
	protocol := answer.Header.Get(httpstream.HeaderProtocolVersion)
	if protocol == "" {
		return nil, ErrNoProtocol
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	raw := &rawConn{Conn: conn, buffered: buffered}
	c, err := kspdy.NewClientConnection(raw)
	if err != nil {
		return nil, err
	}
	return &Conn{Connection: c, Protocol: protocol, raw: raw}, nil
}
