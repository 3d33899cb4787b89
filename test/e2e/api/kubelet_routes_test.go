package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// requestOverSocket sends a request with any method to the daemon's socket.
func requestOverSocket(n *harness.Node, method, path string) (int, string) {
	n.T.Helper()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", n.Socket())
	}}}
	defer c.CloseIdleConnections()
	return n.Request(c, method, "http://podstead"+path, "")
}

// TestKubeletRoutes uses the kubelet's API as its clients do: over the socket, over TLS with
// tokens, and on the read-only port.
func TestKubeletRoutes(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const reader, admin = "reader-0123456789abcdef", "admin-0123456789abcdef"
		tokens := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(tokens, []byte(reader+",ann,read\n"+admin+",eve,admin\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		port, readOnly := strconv.Itoa(harness.HostPort()), strconv.Itoa(harness.HostPort())
		n.Args = []string{"--port", port, "--address", "127.0.0.1", "--token-auth-file", tokens, "--read-only-port", readOnly,
			"--profiling"}
		n.WriteManifest("web.yaml", harness.SleepPod("web", "x"))
		n.MustStart()
		n.AwaitReady("web")
		web := n.PodName("web")
		secure := &http.Client{Transport: transportFor(t, filepath.Join(n.Root, "pki/servers.crt"))}
		defer secure.CloseIdleConnections()
		plain := &http.Client{Transport: &http.Transport{}}
		defer plain.CloseIdleConnections()
		check := func(who string, code int, body string, want int, words ...string) {
			t.Helper()
			if code != want {
				t.Errorf("%s: %d %s, want %d", who, code, body, want)
			}
			for _, w := range words {
				if !strings.Contains(body, w) {
					t.Errorf("%s: no %q in %s", who, w, body)
				}
			}
		}
		for _, c := range []struct {
			method, path                string
			socket, asReader, asAnybody int
			words                       string
		}{
			{"GET", "/pods", 200, 200, 200, web},
			{"GET", "/runningpods/", 200, 200, 200, web},
			{"GET", "/healthz/syncloop", 200, 200, 200, "ok"},
			{"GET", "/configz", 200, 200, 200, `"cgroupRoot"`},
			{"GET", "/spec/", 200, 200, 200, "memory_capacity"},
			{"GET", "/api/v1/pods", 200, 200, 200, web},
			{"GET", "/containerLogs/default/" + web + "/main", 200, 200, 404, ""},
			{"GET", "/logs/", 200, 403, 404, "<pre>"},
			{"GET", "/debug/pprof/goroutine?debug=1", 200, 403, 404, "goroutine profile"},
			{"POST", "/podstead/v1/images/prune?dryRun=true", 200, 403, 404, ""},
			{"GET", "/exec/default/" + web + "/main?command=id&output=1", 400, 403, 404, ""},
			{"POST", "/run/default/" + web + "/main?cmd=cat+/proc/1/comm", 200, 403, 404, "sh"},
		} {
			code, body := requestOverSocket(n, c.method, c.path)
			check(c.path+" over the socket", code, body, c.socket, c.words)
			code, body = n.Request(secure, c.method, "https://127.0.0.1:"+port+c.path, admin)
			check(c.path+" as an admin", code, body, c.socket, c.words)
			code, body = n.Request(secure, c.method, "https://127.0.0.1:"+port+c.path, reader)
			check(c.path+" as a reader", code, body, c.asReader)
			code, body = n.Request(secure, c.method, "https://127.0.0.1:"+port+c.path, "")
			check(c.path+" without credentials", code, body, 401)
			code, body = n.Request(plain, c.method, "http://127.0.0.1:"+readOnly+c.path, admin)
			check(c.path+" on the read-only port", code, body, c.asAnybody)
		}
		// Neither runtime supports checkpoints here: the old one has no such call, the new one
		// no criu. Both report this, and leave no file.
		code, body := requestOverSocket(n, "POST", "/checkpoint/default/"+web+"/main")
		if code != 500 && code != 501 {
			t.Errorf("/checkpoint: %d %s", code, body)
		}
		if left, _ := filepath.Glob(filepath.Join(n.Root, "checkpoints/*")); left != nil {
			t.Errorf("/checkpoint left the files %v", left)
		}
		t.Logf("/checkpoint: %s", fmt.Sprint(code, " ", body))
	})
}
