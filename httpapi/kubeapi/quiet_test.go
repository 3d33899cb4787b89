package kubeapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/statefile"
)

// pipes is an in-memory listener.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error { close(p); return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	theirs, ours := net.Pipe()
	p <- theirs
	return ours, nil
}

// A watch without events stays open for longer than writeTimeout, over HTTP/1.1 and HTTP/2.
func TestIdleWatchStaysOpen(t *testing.T) {
	for name, second := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &fakePods{pods: map[string]*v1.Pod{"web": pod("shop", "web", v1.PodPending)}}
				versions := OpenVersions("", statefile.Disk{})
				api := New(Config{Versions: versions, Sources: Sources{
					Pods:       PodSource(b.list, b.subscribe),
					Nodes:      NodeSource(func() *v1.Node { return &v1.Node{} }, nil),
					Namespaces: NamespaceSource(func() []string { return nil }, metav1.Now(), nil),
					Events:     EventSource(func() []v1.Event { return nil }, nil),
				}})
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = api.Run(ctx) }()
				var protocols http.Protocols
				protocols.SetHTTP1(!second)
				protocols.SetUnencryptedHTTP2(second)
				ln := make(pipes)
				server := &http.Server{Handler: api, Protocols: &protocols, WriteTimeout: time.Minute, ReadTimeout: time.Minute}
				go func() { _ = server.Serve(ln) }()
				client := &http.Client{Transport: &http.Transport{Protocols: &protocols, DialContext: ln.dial}}
				defer func() {
					cancel()
					client.CloseIdleConnections()
					_ = server.Close()
				}()
				res, err := client.Get("http://node/api/v1/pods?watch=true")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				lines := bufio.NewReader(res.Body)
				for _, want := range []string{"Pending", "Running", "Failed"} {
					line, err := lines.ReadString('\n')
					if err != nil || !strings.Contains(line, want) {
						t.Fatalf("%q, %v; want %s", line, err, want)
					}
					time.Sleep(20 * time.Minute)
					b.set("web", pod("shop", "web",
						map[string]v1.PodPhase{"Pending": v1.PodRunning, "Running": v1.PodFailed, "Failed": v1.PodFailed}[want]))
				}
				cancel()
				_ = server.Close()
				_, _ = io.Copy(io.Discard, lines)
			})
		})
	}
}
