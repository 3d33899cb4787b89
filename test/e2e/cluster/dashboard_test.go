package cluster

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podstead/podstead/test/e2e/harness"
)

// dashboard opens WebSockets at an API server as a page in a browser does: with an Origin.
type dashboard struct {
	url    string
	dialer websocket.Dialer
}

func newDashboard(kubeconfig string, protocols ...string) (*dashboard, error) {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	var secure *tls.Config
	if secure, err = rest.TLSConfigFor(c); err != nil {
		return nil, err
	}
	secure.NextProtos = nil
	return &dashboard{
		url:    "wss" + strings.TrimPrefix(c.Host, "https") + "/api/v1/namespaces/default/pods/",
		dialer: websocket.Dialer{TLSClientConfig: secure, Subprotocols: protocols},
	}, nil
}

// open connects to a path below the pods.
func (d *dashboard) open(path string) (*websocket.Conn, error) {
	c, response, err := d.dialer.Dial(d.url+path, http.Header{"Origin": {"https://dashboard.example.com"}})
	if err != nil {
		if response != nil {
			err = fmt.Errorf("%w: %s", err, response.Status)
		}
		return nil, err
	}
	return c, c.SetReadDeadline(time.Now().Add(5 * time.Minute))
}

// read returns what arrives at a path, until the other side closes.
func (d *dashboard) read(path string) (string, error) {
	c, err := d.open(path)
	if err != nil {
		return "", err
	}
	defer c.Close()
	var all strings.Builder
	for {
		_, message, err := c.ReadMessage()
		var closed *websocket.CloseError
		if errors.As(err, &closed) {
			return all.String(), nil
		}
		if err != nil {
			return all.String(), err
		}
		all.Write(message)
	}
}

// checkDashboard uses a pod as pages in a browser do, through the API server.
func checkDashboard(t *testing.T, n *harness.Node, kubeconfig string) {
	t.Helper()
	web := n.PodName("web")
	streams, err := newDashboard(kubeconfig, "v4.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	command := url.Values{"container": {"main"}, "stdout": {"1"}, "command": {"hostname"}}
	if out, err := streams.read(web + "/exec?" + command.Encode()); err != nil || !strings.Contains(out, "\x01"+web) {
		t.Errorf("exec with an Origin: %q, %v", out, err)
	}
	attach := url.Values{"container": {"reader"}, "stdin": {"1"}, "stdout": {"1"}}
	if c, err := streams.open(web + "/attach?" + attach.Encode()); err != nil {
		t.Errorf("attach with an Origin: %v", err)
	} else {
		_ = c.Close()
	}
	tunnel, err := newDashboard(kubeconfig, "SPDY/3.1+portforward.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := tunnel.open(web + "/portforward"); err != nil {
		t.Errorf("port-forward with an Origin: %v", err)
	} else {
		_ = c.Close()
	}
	logs, err := newDashboard(kubeconfig, "binary.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	// The API server drops the last bytes of a log if their end is in the same read.
	n.Await("the whole log arrives over WebSocket", func() error {
		out, err := logs.read(web + "/log?container=reader")
		if err == nil && !strings.Contains(out, "got hello\n") {
			err = fmt.Errorf("%q", out)
		}
		return err
	})
}
