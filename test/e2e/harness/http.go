package harness

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Request sends a request, with a bearer token unless it is empty, and returns the status code and the body.
func (n *Node) Request(c *http.Client, method, url, token string) (int, string) {
	n.T.Helper()
	code, body, err := n.tryRequest(c, method, url, token)
	if err != nil {
		n.T.Fatal(err)
	}
	return code, body
}

// tryRequest is request for a daemon that may refuse the connection.
func (n *Node) tryRequest(c *http.Client, method, url, token string) (int, string, error) {
	req, err := http.NewRequestWithContext(n.T.Context(), method, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// FreeAddress returns an address on which nothing listens, and which the kernel does not assign.
func FreeAddress() string { return fmt.Sprint("127.0.0.1:", HostPort()) }

// Listener returns the process that listens on a unix socket.
func Listener(socket string) (int, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return int(cred.Pid), nil
}

// hostPorts counts the ports that HostPort has returned.
var hostPorts atomic.Int64

// HostPort returns an unused port of the network namespace that the tests of a package share.
func HostPort() int { return 20000 + int(hostPorts.Add(1)) }

// AwaitPage waits until a port of this host serves a page.
func (n *Node) AwaitPage(port int, want string) {
	n.T.Helper()
	n.Await(fmt.Sprintf("port %d serves %q", port, want), func() error {
		page, err := Fetch(port)
		if err == nil && strings.TrimSpace(page) != want {
			err = fmt.Errorf("it serves %q", page)
		}
		return err
	})
}

// Fetch gets the page at a port of this host over a new connection.
func Fetch(port int) (string, error) {
	c := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return string(body), err
}
