package client

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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// requestTimeout bounds one question to the daemon. It answers from memory.
const requestTimeout = 30 * time.Second

// client asks the daemon over its unix socket.
type Client struct {
	socket string
	http   *http.Client
}

func New(socket string) *Client {
	return &Client{socket: socket, http: &http.Client{
		Transport: &http.Transport{ExpectContinueTimeout: requestTimeout, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}}
}

// get decodes the JSON that the daemon answers on path.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := c.Open(ctx, path)
	return decode(path, body, err, into)
}

// post asks for a change and decodes the JSON that the daemon answers; it may
// take as long as ctx lets it.
func (c *Client) Post(ctx context.Context, path string, into any) error {
	body, err := c.do(ctx, http.MethodPost, path)
	return decode(path, body, err, into)
}

// send asks for a change with a body, and decodes the JSON that the daemon
// answers. Nothing is sent before the daemon wants it.
func (c *Client) PostBody(ctx context.Context, path string, body io.Reader, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://podstead"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Expect", "100-continue")
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return c.connectError(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return newStatusError(resp, path)
	}
	return decode(path, resp.Body, nil, into)
}

func decode(path string, body io.ReadCloser, err error, into any) error {
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("cannot read podstead's answer on %s: %w", path, err)
	}
	return nil
}

// open is the body that the daemon answers on path; it may go on for long.
func (c *Client) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	return c.do(ctx, http.MethodGet, path)
}

// asTable asks the Kubernetes API for a table, as kubectl does.
const AcceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// fetch is like get, for an answer in the form that accept names.
func (c *Client) GetAs(ctx context.Context, path, accept string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := c.Request(ctx, http.MethodGet, path, accept)
	return decode(path, body, err, into)
}

func (c *Client) do(ctx context.Context, method, path string) (io.ReadCloser, error) {
	return c.Request(ctx, method, path, "")
}

func (c *Client) Request(ctx context.Context, method, path, accept string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://podstead"+path, nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.connectError(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, newStatusError(resp, path)
}

// refused reads an answer that is not what was asked for. The Kubernetes API
// says why in a Status.
func newStatusError(resp *http.Response, path string) *StatusError {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	r := &StatusError{Code: resp.StatusCode, Status: resp.Status, path: path, Message: strings.TrimSpace(string(text))}
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" {
		r.Message = status.Message
	}
	return r
}

// remove asks the daemon to delete what is at path.
func (c *Client) Delete(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://podstead"+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.connectError(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return errors.New(strings.TrimSpace(string(text)))
}

// refusal is an answer that is not what was asked for.
type StatusError struct {
	Code                  int
	Status, path, Message string
}

func (r *StatusError) Error() string {
	return fmt.Sprintf("podstead answers %s on %s: %s", r.Status, r.path, r.Message)
}

// explain turns a failure to connect into what to do about it.
func (c *Client) connectError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		err = fmt.Errorf("no podstead answers on %s; start it (systemctl start podstead, or podstead run), or name its socket with --api-socket", c.socket)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("you may not use %s; run this as root or as a member of the socket's group", c.socket)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("podstead on %s does not answer in time; podstead may hang: see its log", c.socket)
	default:
		err = fmt.Errorf("cannot ask podstead on %s: %w", c.socket, err)
	}
	return &unreachableError{err}
}

// unreachableError reports that no daemon answers on the socket, or that the user
// may not use it.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }

func (e *unreachableError) Unwrap() error { return e.err }

// isUnreachable reports whether err says that the daemon cannot be reached.
func IsUnreachable(err error) bool {
	var e *unreachableError
	return errors.As(err, &e)
}
