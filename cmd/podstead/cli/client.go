package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// requestTimeout bounds one question to the daemon. It answers from memory.
const requestTimeout = 30 * time.Second

// client asks the daemon over its unix socket.
type client struct {
	socket string
	http   *http.Client
}

func newClient(socket string) *client {
	return &client{socket: socket, http: &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}}
}

// get decodes the JSON that the daemon answers on path.
func (c *client) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podstead"+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.explain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return fmt.Errorf("podstead answers %s on %s: %s", resp.Status, path, strings.TrimSpace(string(text)))
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("cannot read podstead's answer on %s: %w", path, err)
	}
	return nil
}

// explain turns a failure to connect into what to do about it.
func (c *client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no podstead answers on %s; start it (systemctl start podstead, or podstead run), or name its socket with --api-socket", c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("you may not use %s; run this as root or as a member of the socket's group", c.socket)
	}
	return fmt.Errorf("cannot ask podstead on %s: %w", c.socket, err)
}
