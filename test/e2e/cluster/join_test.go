package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// signer signs certificate requests in a cluster, as a controller manager does.
type signer struct {
	*harness.Admin
	c *testbed.Cluster
	// life is the lifetime of a certificate, and its age when it is signed.
	life func(*certificatesv1.CertificateSigningRequest) (age, life time.Duration)

	mu     sync.Mutex
	signed []certificatesv1.CertificateSigningRequest
}

// run signs requests until the context ends.
func (s *signer) run(ctx context.Context) error {
	watch := exec.CommandContext(ctx, testbed.Kubectl(), "--kubeconfig", s.Config, "get", "csr", "--watch", "-o", "json")
	out, err := watch.StdoutPipe()
	if err != nil {
		return err
	}
	if err := watch.Start(); err != nil {
		return err
	}
	defer func() { _ = watch.Wait() }()
	done := map[string]bool{}
	for all := json.NewDecoder(out); ; {
		csr := certificatesv1.CertificateSigningRequest{}
		if err := all.Decode(&csr); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if done[csr.Name] || csr.Status.Certificate != nil {
			continue
		}
		done[csr.Name] = true
		age, life := s.life(&csr)
		signed, err := s.c.Sign(csr.Spec.Request, time.Now().Add(-age), time.Now().Add(life-age))
		if err != nil {
			return err
		}
		patch := fmt.Sprintf(`{"status": {"certificate": %q}}`, base64.StdEncoding.EncodeToString(signed))
		for _, args := range [][]string{{"certificate", "approve", csr.Name},
			{"patch", "csr", csr.Name, "--subresource=status", "--type=merge", "-p", patch}} {
			if _, err := s.Kubectl(args...); err != nil {
				return err
			}
		}
		s.mu.Lock()
		s.signed = append(s.signed, csr)
		s.mu.Unlock()
	}
}

// awaitSigned waits until at least count requests of a user to a signer are signed and returns
// them.
func (s *signer) awaitSigned(n *harness.Node, user, name string,
	count int) (found []certificatesv1.CertificateSigningRequest) {
	n.T.Helper()
	n.Await(fmt.Sprintf("%d certificates for %s are signed by %s", count, user, name), func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		found = nil
		var all []string
		for _, csr := range s.signed {
			all = append(all, csr.Spec.Username+" by "+csr.Spec.SignerName)
			if csr.Spec.Username == user && csr.Spec.SignerName == name {
				found = append(found, csr)
			}
		}
		if len(found) < count {
			return fmt.Errorf("signed were %v", all)
		}
		return nil
	}, 15*time.Minute)
	return found
}

// A machine with a bootstrap token becomes a node: its certificates are signed and renewed,
// and the API server reaches its pods.
func TestClusterJoin(t *testing.T) {
	t.Parallel()
	// An address of the machine other than loopback, which it does not have here.
	const address = "198.51.100.7"
	if out, err := exec.Command("ip", "addr", "add", address+"/32", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "addr", "del", address+"/32", "dev", "lo").Run() })
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	ctx := t.Context()
	c, err := testbed.NewCluster(n.Name)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := harness.UseCluster(n, c)
	const token = "bootstrap-0123456789"
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+`,newcomer,1,"system:bootstrappers"`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Flags = []string{"--token-auth-file", tokens, "--kubelet-certificate-authority", c.CA(),
		"--kubelet-preferred-address-types", "InternalIP"}
	bootstrap, err := c.TokenKubeconfig(token)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, port := filepath.Join(n.Dir(), "joined/kubeconfig"), fmt.Sprint(harness.HostPort())
	n.Args = append(n.Args, "--kubeconfig", kubeconfig, "--bootstrap-kubeconfig", bootstrap,
		"--rotate-server-certificates",
		"--client-ca-file", c.CA(), "--port", port, "--node-ip", address)
	n.WriteManifest("web.yaml", harness.StreamPod("web"))

	// There is no API server yet, and static pods start without it.
	n.MustStart()
	web := n.AwaitContainer("web", "main")
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	n.Await("a certificate request is created once bootstrap tokens are authorized", func() error {
		_, err := a.Kubectl("create", "clusterrolebinding", "newcomers", "--clusterrole", "system:node-bootstrapper",
			"--group", "system:bootstrappers")
		if err != nil && !strings.Contains(err.Error(), "AlreadyExists") && !strings.Contains(err.Error(), "already exists") {
			return err
		}
		out, err := a.Kubectl("get", "csr", "-o", "name")
		if err == nil && !strings.Contains(out, "node-csr-") {
			err = errors.New("none")
		}
		return err
	})
	// A restarted daemon continues with the same request.
	n.Restart()
	newcomer, itself := "newcomer", "system:node:"+n.Name
	first := true
	s := &signer{Admin: a, c: c, life: func(csr *certificatesv1.CertificateSigningRequest) (time.Duration, time.Duration) {
		if csr.Spec.Username == newcomer && first {
			// The certificate is renewed two to six minutes from now, at least two minutes before it
			// expires: a busy machine is that slow.
			first = false
			return 12 * time.Minute, 20 * time.Minute
		}
		return 0, 24 * time.Hour
	}}
	signing, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.run(signing) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("signer: %v", err)
		}
	}()
	a.AwaitMirror(n, "the mirror pod is ready", "default", "web", harness.PodReady)
	node := &v1.Node{}
	if err := a.Get(node, "node", n.Name); err != nil {
		t.Fatal(err)
	}
	if got := node.Status.DaemonEndpoints.KubeletEndpoint.Port; fmt.Sprint(got) != port {
		t.Errorf("the node object has port %d, want %s", got, port)
	}
	if requests := s.awaitSigned(n, newcomer, certificatesv1.KubeAPIServerClientKubeletSignerName, 1); len(requests) != 1 {
		t.Errorf("%d requests with the bootstrap token", len(requests))
	}
	if fi, err := os.Stat(filepath.Join(n.Root, "pki/kubelet-client-current.pem")); err != nil ||
		fi.Mode().Perm() != 0o600 {
		t.Errorf("certificate: %v, %v", fi, err)
	}

	// The serving certificate is signed by the cluster, which the API server requires.
	s.awaitSigned(n, itself, certificatesv1.KubeletServingSignerName, 1)
	k := &harness.Kubectl{Node: n, Config: a.Config}
	n.Await("logs through the API server", func() error {
		out, err := k.Run("logs", n.PodName("web"), "-c", "main", "--tail", "5")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	checkPodAccess(t, n, k)
	checkDashboard(t, n, a.Config)
	checkDelegatedAuth(t, n, a, "https://"+address+":"+port, c.CA())

	// The next certificate is requested with the node's credentials and used from then on.
	s.awaitSigned(n, itself, certificatesv1.KubeAPIServerClientKubeletSignerName, 1)
	current := filepath.Join(n.Root, "pki/kubelet-client-current.pem")
	n.Await("the certificate is renewed", func() error {
		cert, err := tls.LoadX509KeyPair(current, current)
		if err == nil && time.Until(cert.Leaf.NotAfter) < time.Hour {
			err = fmt.Errorf("until %s", cert.Leaf.NotAfter)
		}
		return err
	})
	n.WriteManifest("later.yaml", mirroredPod("name: later", ""))
	a.AwaitMirror(n, "a mirror pod after the renewal", "default", "later", harness.PodReady)
	n.Restart()
	n.RemoveManifest("later.yaml")
	a.AwaitMirrorGone(n, "default", "later")
	if again := n.AwaitContainer("web", "main"); again.ID != web.ID {
		t.Errorf("web was restarted: %v, then %v", web, again)
	}
}

// checkPodAccess uses exec, port-forward, attach, logs and cp on a mirror pod through the API
// server.
func checkPodAccess(t *testing.T, n *harness.Node, k *harness.Kubectl) {
	t.Helper()
	web := n.PodName("web")
	for _, shape := range []string{"WebSocket", "SPDY"} {
		if out, err := k.CommandWith(shape, "exec", web, "-c", "main", "--", "hostname").CombinedOutput(); err != nil ||
			strings.TrimSpace(string(out)) != web {
			t.Errorf("%s: exec: %v, %s", shape, err, out)
		}
		if err := harness.CheckTerminal(n, k.CommandWith(shape, "exec", "-it", web, "-c", "main", "--", "sh")); err != nil {
			t.Errorf("%s: exec -it: %v", shape, err)
		}
		at := harness.AwaitForwarding(t, k.CommandWith(shape, "port-forward", "pod/"+web, ":7001"), 1)
		if err := harness.CheckEcho(at["7001"], 100_000, false); err != nil {
			t.Errorf("%s: port-forward: %v", shape, err)
		}
	}
	attached := k.CommandWith("WebSocket", "attach", "-i", web, "-c", "reader")
	if err := harness.CheckAttached(attached); err != nil {
		t.Errorf("attach: %v", err)
	}
	_ = attached.Process.Signal(syscall.SIGINT)
	_ = attached.Wait()
	follow := k.Command(t.Context(), "logs", "-f", web, "-c", "reader")
	lines, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("got hello\n"))
	if _, err := io.ReadFull(lines, line); err != nil || string(line) != "got hello\n" {
		t.Errorf("logs -f: %q, %v", line, err)
	}
	_ = follow.Process.Kill()
	_ = follow.Wait()
	file := filepath.Join(t.TempDir(), "file")
	if out, err := k.Run("cp", "-c", "main", web+":/etc/passwd", file); err != nil {
		t.Errorf("cp: %v, %s", err, out)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "root") {
		t.Errorf("cp copied %q, %v", text, err)
	}
}

// checkDelegatedAuth sends requests to the daemon's port with tokens of the cluster.
func checkDelegatedAuth(t *testing.T, n *harness.Node, a *harness.Admin, url, ca string) {
	t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	ask := func(token, path string) (int, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), "GET", url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(text)
	}
	a.Must("create", "serviceaccount", "scraper")
	out, err := a.Kubectl("create", "token", "scraper")
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(out)
	// The daemon waits for five seconds for a response of the API server.
	n.Await("the API server's answer to a foreign token", func() error {
		if code, text := ask("unknown", "/metrics"); code != 401 {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	n.Await("the API server's answer without permissions", func() error {
		if code, text := ask(token, "/stats/summary"); code != 403 ||
			!strings.Contains(text, "system:serviceaccount:default:scraper") || !strings.Contains(text, "nodes/stats") {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	a.Must("create", "clusterrole", "scraper", "--verb", "get", "--resource", "nodes/metrics")
	a.Must("create", "clusterrolebinding", "scraper", "--clusterrole", "scraper", "--serviceaccount", "default:scraper")
	n.Await("the scraper is authorized", func() error {
		if code, text := ask(token, "/metrics/resource"); code != 200 ||
			!strings.Contains(text, "node_cpu_usage_seconds_total") {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	n.Await("the API server's answer beyond its permissions", func() error {
		if code, text := ask(token, "/pods"); code != 403 {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
}
