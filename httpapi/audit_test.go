package httpapi

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// syncBuffer is a buffer for concurrent writes.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// lines returns the lines with a text since the last call.
func (b *syncBuffer) lines(text string) (found []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	b.text.Reset()
	return found
}

// The log reports who did what: sessions, writes and reads of Secrets, and nothing else.
func TestAudit(t *testing.T) {
	var log syncBuffer
	b := newTestServer(t).withTokens()
	b.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	b.src.Kube = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	b.src.ManifestName = func(pod *v1.Pod) string { return pod.Name }
	b.start()
	c := b.client()
	for _, q := range []struct {
		method, path, token string
		want                []string
	}{
		{"POST", "/exec/default/web-n1/main?command=sh&command=-c&command=rm%0A%1b&stdin=1", execToken, []string{
			"user=bob", "address=127.0.0.1:", "method=POST", "path=/exec/default/web-n1/main", "pod=default/web-n1",
			"container=main", `\"rm\\n\\x1b\"`}},
		{"GET", "/api/v1/namespaces/default/pods/web-n1/portforward", execToken, []string{"user=bob", "pod=default/web-n1"}},
		{"GET", "/api/v1/namespaces/default/pods/web-n1/attach?container=main", adminToken,
			[]string{"user=eve", "container=main"}},
		{"POST", "/run/default/web-n1/main?cmd=id", execToken, []string{`command="[\"id\"]"`}},
		{"POST", "/podstead/v1/images/prune?dryRun=x", adminToken, []string{"user=eve", "path=/podstead/v1/images/prune"}},
		{"GET", "/api/v1/namespaces/default/secrets/login", adminToken,
			[]string{"user=eve", "path=/api/v1/namespaces/default/secrets/login"}},
		{"GET", "/api/v1/secrets?watch=1", adminToken, []string{"path=/api/v1/secrets"}},
		{"GET", "/api/v1/secrets", execToken, nil}, // without data
		{"GET", "/api/v1/pods", adminToken, nil},
		{"GET", "/pods", adminToken, nil},
		{"POST", "/exec/default/web-n1/main?command=id", readerToken, nil}, // forbidden
	} {
		log.lines("")
		b.request(c, q.method, "https://"+b.tlsAddress+q.path, q.token)
		lines := log.lines("msg=Audit")
		if (len(lines) == 1) != (q.want != nil) || len(lines) > 1 {
			t.Errorf("%s %s: %q", q.method, q.path, lines)
			continue
		}
		for _, want := range q.want {
			if !strings.Contains(lines[0], want) {
				t.Errorf("%s %s: no %s in %s", q.method, q.path, want, lines[0])
			}
		}
		if len(lines) > 0 && strings.Contains(lines[0], q.token) {
			t.Errorf("%s %s: the token is in %s", q.method, q.path, lines[0])
		}
	}
	// The caller on the socket is the process at its other end.
	log.lines("")
	b.request(b.socketClient(), "DELETE", "http://podstead/podstead/v1/kubeconfig", "")
	if lines := log.lines("msg=Audit"); len(lines) != 1 ||
		!strings.Contains(lines[0], "uid="+strconv.Itoa(os.Getuid())+" pid="+strconv.Itoa(os.Getpid())) {
		t.Errorf("over the socket: %q", lines)
	}
}

// socketClient returns a client of the socket.
func (b *testServer) socketClient() *http.Client {
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.cfg.Socket)
	}}}
	b.Cleanup(c.CloseIdleConnections)
	return c
}
