package registry

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
)

// remoteClient returns a client for which example.com, a name in the certificate of the
// server, is the server.
func remoteClient(t *testing.T, server *httptest.Server) *Client {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{CAFile: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.transport.Proxy = nil
	c.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "example.com:") {
			address = server.Listener.Addr().String()
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return c
}

// A remote registry cannot make the daemon talk to a service on the loopback of the node
// without TLS: neither by a redirect nor as its authorization server. One on loopback can.
func TestReferralToLoopback(t *testing.T) {
	var reached atomic.Int32
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer local.Close()
	for name, refer := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, local.URL+"/secret", http.StatusTemporaryRedirect)
		},
		"authorization": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Www-Authenticate", `Bearer realm="`+local.URL+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		remote := httptest.NewTLSServer(refer)
		defer remote.Close()
		reached.Store(0)
		c := remoteClient(t, remote)
		_, err := c.FetchManifest(t.Context(), Reference{Host: "example.com", Repository: "fleet/web", Digest: someDigest},
			1000, Credential{Username: "u", Password: "p"})
		if err == nil || reached.Load() != 0 {
			t.Errorf("%s by a remote registry: %v, %d requests to loopback", name, err, reached.Load())
		}
		if name == "redirect" && err != nil && !strings.Contains(err.Error(), "without TLS") {
			t.Error(err)
		}
		near := httptest.NewServer(refer)
		defer near.Close()
		if _, err := c.FetchManifest(t.Context(),
			Reference{Host: near.Listener.Addr().String(), Repository: "fleet/web", Digest: someDigest},
			1000); reached.Load() == 0 {
			t.Errorf("%s by a registry on loopback: %v", name, err)
		}
	}
}

// A proxy that compresses for those who accept it takes the length away, without which an
// answer is refused.
func TestProxyThatCompresses(t *testing.T) {
	data := []byte(`{"layers":[]}`)
	desired := digest.FromBytes(data)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", TypeManifest)
		w.Header().Set("Docker-Content-Digest", desired.String())
		if q.Method == http.MethodHead {
			return // its length is not known before it was compressed
		}
		if strings.Contains(q.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(data)
			_ = z.Close()
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data)
	}))
	defer server.Close()
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := Reference{Host: server.Listener.Addr().String(), Repository: "fleet/web", Digest: desired.String()}
	if m, err := c.FetchManifest(t.Context(), r, 1000); err != nil || string(m.Data) != string(data) {
		t.Errorf("%q (%v)", m.Data, err)
	}
	if d, err := c.Resolve(t.Context(), r); err != nil || d.Size != int64(len(data)) {
		t.Errorf("%+v (%v)", d, err)
	}
}
