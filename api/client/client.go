package client

import (
	"bytes"
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

// requestTimeout limits one request to the daemon, which answers from memory.
const requestTimeout = 30 * time.Second

// Client sends requests to the daemon over its unix socket.
type Client struct {
	socket string
	http   *http.Client
}

// New returns a client of the daemon at a socket. It does not connect yet.
func New(socket string) *Client {
	return &Client{socket: socket, http: &http.Client{
		Transport: &http.Transport{ExpectContinueTimeout: requestTimeout,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			}},
	}}
}

// Dial opens a connection to the daemon, for a protocol other than HTTP requests with one response.
func (c *Client) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, c.requestError(err)
	}
	return conn, nil
}

// Get decodes the daemon's JSON response to a GET request.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := c.Open(ctx, path)
	return decode(path, body, err, into)
}

// Post decodes the daemon's JSON response to a POST request. Only ctx limits its time.
func (c *Client) Post(ctx context.Context, path string, into any) error {
	body, err := c.do(ctx, http.MethodPost, path)
	return decode(path, body, err, into)
}

// PostBody sends a POST request with a body and decodes the daemon's JSON response. The
// body is only sent once the daemon has accepted the request.
func (c *Client) PostBody(ctx context.Context, path string, body io.Reader, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://podstead"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Expect", "100-continue")
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := c.http.Do(req)
	if err != nil {
		return c.requestError(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return newStatusError(resp, path)
	}
	return decode(path, resp.Body, nil, into)
}

// Patch sends a PATCH request with a body and decodes the daemon's JSON response.
func (c *Client) Patch(ctx context.Context, path, contentType string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, "http://podstead"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := c.http.Do(req)
	if err != nil {
		return c.requestError(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
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
		return fmt.Errorf("failed to decode the daemon's response to %s: %w", path, err)
	}
	return nil
}

// Open returns the response body of a GET request, which may be a long stream.
func (c *Client) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	return c.do(ctx, http.MethodGet, path)
}

// AcceptTable is the Accept header that requests a table from the Kubernetes API, as kubectl
// sends it.
const AcceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// GetAs is like Get with an Accept header.
func (c *Client) GetAs(ctx context.Context, path, accept string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := c.Request(ctx, http.MethodGet, path, accept)
	return decode(path, body, err, into)
}

func (c *Client) do(ctx context.Context, method, path string) (io.ReadCloser, error) {
	return c.Request(ctx, method, path, "")
}

// Request sends a request and returns the body of a response with status 200.
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
		return nil, c.requestError(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, newStatusError(resp, path)
}

// newStatusError reads an error response.
func newStatusError(resp *http.Response, path string) *StatusError {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	return NewStatusError(resp.StatusCode, text, path)
}

// Delete sends a DELETE request.
func (c *Client) Delete(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://podstead"+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.requestError(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	return newStatusError(resp, path)
}

// unknownPath is the body of the response of net/http to a path that it does not serve.
const unknownPath = "404 page not found"

// StatusError is an error response of the daemon.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Message is the message of the daemon; empty if it sent none.
	Message string
	path    string
}

// NewStatusError returns the error of a response with an HTTP status and a body. The Kubernetes API puts
// the message into a Status.
func NewStatusError(code int, body []byte, path string) *StatusError {
	r := &StatusError{Code: code, path: path, Message: strings.TrimSpace(string(body))}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		r.Message = status.Message
	}
	return r
}

// Error returns the message of the daemon, which is complete by itself. The status and the path explain
// only a response without one.
func (r *StatusError) Error() string {
	switch r.Message {
	case "":
		return fmt.Sprintf("daemon returned %d %s for %s", r.Code, http.StatusText(r.Code), r.path)
	case unknownPath:
		return fmt.Sprintf("the daemon does not serve %s; it may be of another version than this command", r.path)
	}
	return r.Message
}

// requestError explains why a request failed and how to fix it.
func (c *Client) requestError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		err = fmt.Errorf("failed to connect to the daemon at %s; start it (systemctl start podstead, or podstead run), or "+
			"set its socket with --api-socket", c.socket)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("permission denied on %s; run this as root or as a member of the socket's group", c.socket)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("the daemon at %s did not respond in time; see its log", c.socket)
	default:
		err = fmt.Errorf("request to the daemon at %s failed: %w", c.socket, err)
	}
	return &unreachableError{err}
}

// unreachableError reports that no daemon answers on the socket, or that the user
// may not use it.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return e.err.Error() }

func (e *unreachableError) Unwrap() error { return e.err }

// IsUnreachable reports whether err says that the daemon cannot be reached.
func IsUnreachable(err error) bool {
	var e *unreachableError
	return errors.As(err, &e)
}
