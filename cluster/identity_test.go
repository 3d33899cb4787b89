package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/cluster/certificate"
)

// testCA is a certificate authority for tests.
type testCA struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newTestCA(t *testing.T) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &testCA{t, cert, key}
}

func (a *testCA) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// sign returns a PEM certificate of a user with the given validity.
func (a *testCA) sign(public any, user string, from, to time.Time) []byte {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(from.UnixNano()), Subject: pkix.Name{CommonName: user, Organization: []string{nodesGroup}},
		NotBefore: from, NotAfter: to,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pair returns a certificate and its key in one PEM file.
func (a *testCA) pair(user string, from, to time.Time) []byte {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return append(a.sign(key.Public(), user, from, to),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...)
}

// files returns a directory with the given files.
func files(t *testing.T, content map[string][]byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// aKubeconfig returns a kubeconfig for https://api.invalid with the given
// credentials.
func aKubeconfig(user string) []byte {
	return []byte(
		`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "https://api.invalid:6443"}}],
  contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: ` + user + `}]}`)
}

func TestEstablish(t *testing.T) {
	ca, now := newTestCA(t), time.Now()
	fresh := ca.pair("system:node:edge", now.Add(-time.Hour), now.Add(time.Hour))
	newer := ca.pair("system:node:edge", now.Add(-time.Minute), now.Add(time.Hour))
	ended := ca.pair("system:node:edge", now.Add(-2*time.Hour), now.Add(-time.Hour))
	other := ca.pair("system:node:other", now.Add(-time.Hour), now.Add(time.Hour))
	inFile := aKubeconfig("{client-certificate: me.pem, client-key: me.pem}")
	likeKubeadm := aKubeconfig("{client-certificate: kubelet/kubelet-client-current.pem, client-key: " +
		"kubelet/kubelet-client-current.pem}")
	token := aKubeconfig("{token: abc}")
	const has, asks, leaves = "has a certificate", "asks for one", "leaves it to the kubeconfig"
	for _, c := range []struct {
		name  string
		files map[string][]byte
		off   bool
		want  string
		// store is the path where the next certificate is stored.
		store string
		cert  []byte
		fault string
	}{
		{name: "none yet", files: map[string][]byte{"boot": token}, want: asks, store: "pki"},
		{name: "nothing at all", fault: "config: no such file"},
		{name: "a good one", files: map[string][]byte{"boot": token, "config": inFile, "me.pem": fresh}, want: has,
			store: "pki", cert: fresh},
		{name: "a good one without bootstrap", files: map[string][]byte{"config": inFile, "me.pem": fresh}, want: has,
			store: "pki", cert: fresh},
		{name: "not to be rotated", files: map[string][]byte{"config": inFile, "me.pem": fresh}, off: true, want: leaves},
		{name: "one that was renewed since",
			files: map[string][]byte{"config": inFile, "me.pem": fresh, "pki/kubelet-client-current.pem": newer}, want: has,
			store: "pki", cert: newer},
		{name: "one that was replaced by hand",
			files: map[string][]byte{"config": inFile, "me.pem": newer, "pki/kubelet-client-current.pem": fresh}, want: has,
			store: "pki", cert: newer},
		{name: "that of another node", files: map[string][]byte{"config": inFile, "me.pem": other}, want: leaves},
		{name: "one that ended", files: map[string][]byte{"boot": token, "config": inFile, "me.pem": ended}, want: asks,
			store: "pki"},
		{name: "one that ended, without bootstrap", files: map[string][]byte{"config": inFile, "me.pem": ended}, want: has,
			store: "pki", cert: ended},
		{name: "kubelet layout", files: map[string][]byte{"config": likeKubeadm, "kubelet/kubelet-client-current.pem": fresh},
			want: has, store: "kubelet", cert: fresh},
		{name: "a lost file", files: map[string][]byte{"boot": token, "config": inFile}, want: asks, store: "pki"},
		{name: "a lost file, without bootstrap", files: map[string][]byte{"config": inFile}, fault: "me.pem: no such file"},
		{name: "a token", files: map[string][]byte{"config": token}, want: leaves},
		{name: "a broken one", files: map[string][]byte{"config": []byte("{")}, fault: "fix the file, or omit the flag"},
		{name: "a broken bootstrap", files: map[string][]byte{"boot": []byte("{")}, fault: "--bootstrap-kubeconfig"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := files(t, c.files)
			certificates := Certificates{Directory: filepath.Join(dir, "pki"), Rotate: !c.off}
			if c.files["boot"] != nil {
				certificates.Bootstrap = filepath.Join(dir, "boot")
			}
			cfg, id, err := readIdentity(filepath.Join(dir, "config"), certificates, "edge",
				slog.New(slog.NewTextHandler(io.Discard, nil)))
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("error %v, want %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := has
			if id == nil {
				got = leaves
			} else if id.current == nil {
				got = asks
			}
			if got != c.want || (cfg == nil) != (id != nil) {
				t.Fatalf("%s, want it %s", got, c.want)
			}
			if id == nil {
				return
			}
			if id.store.Dir != filepath.Join(dir, c.store) || id.config.Host != "https://api.invalid:6443" ||
				id.config.BearerToken != "" {
				t.Errorf("goes to %s as %q, next into %s", id.config.Host, id.config.BearerToken, id.store.Dir)
			}
			if c.cert != nil && !bytes.Contains(c.cert,
				pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: id.current.Leaf.Raw})) {
				t.Error("another certificate")
			}
		})
	}
}

// The kubeconfig that is written after a bootstrap is read at the next start.
func TestBootstrapLeavesAKubeconfig(t *testing.T) {
	ca := newTestCA(t)
	stale := ca.pair("system:node:edge", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	dir := files(t, map[string][]byte{"boot": aKubeconfig("{token: abc}"), "pki/kubelet-client-current.pem": stale,
		"pki/kubelet-server-current.pem": stale})
	config := filepath.Join(dir, "etc/config")
	c := Certificates{Directory: filepath.Join(dir, "pki"), Rotate: true, Bootstrap: filepath.Join(dir, "boot")}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	_, id, err := readIdentity(config, c, "edge", log)
	if err != nil {
		t.Fatal(err)
	}
	there := func(want bool) {
		t.Helper()
		for _, name := range []string{"client", "server"} {
			if _, err := os.Lstat(filepath.Join(dir, "pki/kubelet-"+name+"-current.pem")); os.IsNotExist(err) == want {
				t.Errorf("the %s certificate of an earlier cluster: %v, want it: %v", name, err, want)
			}
		}
	}
	// They are removed with the first certificate of this cluster, and are not used before.
	there(true)
	settings := Certificates{Directory: c.Directory, Serving: true}
	if serving := newCertificates(&Adapter{cfg: Config{Certificates: settings, Log: log}},
		id).serving; serving.Certificate() != nil {
		t.Error("the serving certificate of an earlier cluster is used")
	}
	if err := id.writeKubeconfig(config); err != nil {
		t.Fatal(err)
	}
	there(false)
	// A renewal removes nothing.
	if err := os.WriteFile(filepath.Join(dir, "pki/kubelet-server-current.pem"), stale, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := id.writeKubeconfig(config); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "pki/kubelet-server-current.pem")); err != nil {
		t.Errorf("a renewal: %v", err)
	}
	fi, err := os.Stat(config)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", fi, err)
	}
	// A daemon that stopped between the two writes starts again.
	if _, id, err = readIdentity(config, c, "edge", log); err != nil || id.current != nil || id.kubeconfig != nil {
		t.Fatalf("%v, %v", id, err)
	}
	if err := os.WriteFile(id.store.Current(), stale, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, id, err = readIdentity(config, c, "edge", log); err != nil || id.current == nil ||
		id.config.Host != "https://api.invalid:6443" {
		t.Fatalf("%v, %v", id, err)
	}
}

// Certificates that cannot be removed, as on a read-only file system, do not keep the daemon from
// its start, and a kubeconfig that is lost does not cost the certificate.
func TestBootstrapOnAReadOnlyRoot(t *testing.T) {
	// Nothing removes a directory with content as a file.
	dir := files(t, map[string][]byte{"boot": aKubeconfig("{token: abc}"), "pki/kubelet-client-current.pem/file": nil})
	c := Certificates{Directory: filepath.Join(dir, "pki"), Rotate: true, Bootstrap: filepath.Join(dir, "boot")}
	_, id, err := readIdentity(filepath.Join(dir, "config"), c, "edge", slog.New(slog.DiscardHandler))
	if err != nil || id == nil {
		t.Fatalf("%v, %v", id, err)
	}
	if err := id.writeKubeconfig(filepath.Join(dir, "config")); err == nil ||
		!strings.Contains(err.Error(), "certificate of an earlier cluster") {
		t.Errorf("the new certificate: %v", err)
	}
}

// Requests after a renewal use the new certificate, also for clients with open
// connections; requests in flight continue.
func TestRequestsTakeTheNewestCertificate(t *testing.T) {
	ca, now := newTestCA(t), time.Now()
	began, end := make(chan struct{}), make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ", r.TLS.PeerCertificates[0].NotBefore.Unix(), "\n")
		if r.URL.Path == "/watch" {
			w.(http.Flusher).Flush()
			close(began)
			<-end
			fmt.Fprint(w, "end")
		}
	}))
	load := func(text []byte) *tls.Certificate {
		pair, err := tls.X509KeyPair(text, text)
		if err != nil {
			t.Fatal(err)
		}
		return &pair
	}
	first, second := now.Add(-2*time.Hour).Truncate(time.Second), now.Add(-time.Hour).Truncate(time.Second)
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert,
		Certificates: []tls.Certificate{*load(ca.pair("server", first, now.Add(time.Hour)))}}
	srv.StartTLS()
	defer srv.Close()
	dir := files(t, map[string][]byte{
		"ca.pem": ca.pem(), "boot": bytes.Replace(aKubeconfig("{token: abc}"), []byte(`server: "https://api.invalid:6443"`),
			[]byte("certificate-authority: ca.pem, server: "+srv.URL), 1),
	})
	id, err := bootstrapIdentity(filepath.Join(dir, "config"),
		Certificates{Bootstrap: filepath.Join(dir, "boot"), Directory: dir}, certificate.Store{Dir: dir, Name: clientName})
	if err != nil {
		t.Fatal(err)
	}
	current := load(ca.pair("me", first, now.Add(time.Hour)))
	cfg, rotating, err := id.clientConfig(func() *tls.Certificate { return current }, new(net.Dialer).DialContext)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: cfg.Transport}
	ask := func(path string) *http.Response {
		t.Helper()
		q, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), "GET", srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	says := func(r *http.Response, want string) {
		t.Helper()
		defer r.Body.Close()
		if text, err := io.ReadAll(r.Body); err != nil || string(text) != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
	}
	watch := ask("/watch")
	<-began
	says(ask("/"), fmt.Sprintf("HTTP/2.0 %d\n", first.Unix()))
	current = load(ca.pair("me", second, now.Add(time.Hour)))
	rotating.renew()
	says(ask("/"), fmt.Sprintf("HTTP/2.0 %d\n", second.Unix()))
	close(end)
	says(watch, fmt.Sprintf("HTTP/2.0 %d\nend", first.Unix()))
}
