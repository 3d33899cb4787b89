package sources

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// cosigner signs with cosign, without a network.
type cosigner struct {
	t *testing.T
	// dir has the key pair and a signing configuration without services.
	dir string
}

func newCosigner(t *testing.T) *cosigner {
	t.Helper()
	c := &cosigner{t: t, dir: t.TempDir()}
	c.run(nil, "generate-key-pair")
	c.run(nil, "signing-config", "create", "--out", "signing.json")
	return c
}

func (c *cosigner) public() string { return filepath.Join(c.dir, "cosign.pub") }

func (c *cosigner) run(env []string, args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), testbed.Cosign(), args...)
	cmd.Dir = c.dir
	cmd.Env = append(append(os.Environ(), "COSIGN_PASSWORD=secret", "HOME="+c.dir), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("cosign %v: %v\n%s", args, err, out)
	}
}

// detached are the options for a detached signature without a transparency log, bundled those
// for a bundle, which is cosign's default form.
var (
	detached = []string{"--use-signing-config=false", "--new-bundle-format=false", "--tlog-upload=false"}
	bundled  = []string{"--signing-config", "signing.json"}
)

// blob returns the signature of a text in the form of the options.
func (c *cosigner) blob(text string, options []string) string {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "blob"), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	out := "--output-signature"
	if options[0] == bundled[0] {
		out = "--bundle"
	}
	c.run(nil, append(append([]string{"sign-blob", "-y", "--key", "cosign.key", out, "blob.sig"}, options...), "blob")...)
	data, err := os.ReadFile(filepath.Join(c.dir, "blob.sig"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}

// artifact signs what a reference names now.
func (c *cosigner) artifact(s *harness.ArtifactServer, ref string, options []string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "config.json"), []byte(s.Config), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.run([]string{"DOCKER_CONFIG=" + c.dir},
		append(append([]string{"sign", "-y", "--key", "cosign.key", "--allow-http-registry"}, options...), ref)...)
}

// pages is a web server of files.
type pages struct {
	mu    sync.Mutex
	files map[string]string
}

func (p *pages) set(path, content string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files[path] = content
}

func (p *pages) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	content, ok := p.files[q.URL.Path]
	if !ok {
		http.NotFound(w, q)
		return
	}
	_, _ = w.Write([]byte(content))
}

// Manifests of each source take effect with a signature of cosign only, in both of its forms;
// what runs stays.
func TestSignedManifests(t *testing.T) {
	t.Parallel()
	kinds := testbed.Kinds()
	n := harness.NewNode(t, harness.SharedRuntime(t, kinds[len(kinds)-1])) // the runtime makes no difference
	first, second := newCosigner(t), newCosigner(t)
	web := &pages{files: map[string]string{}}
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	artifacts := newArtifactServer(t, "pass-word-"+n.Name)
	ref := artifacts.Addr + "/fleet/web:stable"
	harness.WriteAll(t, n.Root, map[string]string{"config.json": artifacts.Config})
	n.Args = []string{"--manifest-verify-key", first.public(), "--manifest-url", server.URL + "/pods.yaml",
		"--manifest-oci", ref, "--http-check-frequency", "200ms"}

	one := harness.SleepPod("p", "one")
	n.WriteManifest("p.yaml.sig", first.blob(one, detached))
	n.WriteManifest("p.yaml", one)
	body := harness.SleepPod("u", "one")
	web.set("/pods.yaml", body)
	artifacts.Push(ref, map[string]string{"o.yaml": harness.SleepPod("o", "one")})
	n.MustStart()
	p := n.AwaitRunning("p")
	n.AwaitManifestError("is not signed: there is no " + server.URL + "/pods.yaml.sig")
	n.AwaitManifestError("is not signed: there is no signature of " + ref)
	web.set("/pods.yaml.sig", first.blob(body, bundled))
	first.artifact(artifacts, ref, detached)
	u, o := n.AwaitRunning("u"), n.AwaitRunning("o")
	awaitNoFault(n)

	// A byte more, and a signature by another key.
	n.WriteManifest("p.yaml", one+"#\n")
	n.AwaitManifestError("p.yaml.sig fits none of the keys")
	q := harness.SleepPod("q", "one")
	n.WriteManifest("q.yaml.sig", second.blob(q, bundled))
	n.WriteManifest("q.yaml", q)
	n.AwaitManifestError("q.yaml.sig fits none of the keys")
	artifacts.Push(ref, map[string]string{"o.yaml": harness.SleepPod("o", "two")})
	second.artifact(artifacts, ref, detached)
	n.AwaitManifestError("none of the 1 signatures of "+ref, "fits none of the keys")
	web.set("/pods.yaml", harness.SleepPod("u", "two"))
	n.AwaitManifestError("/pods.yaml.sig fits none of the keys")
	n.MustStillRun("p", p)
	n.MustStillRun("u", u)
	n.MustStillRun("o", o)

	// Rotation: signatures by both keys are valid. The bundle replaces no signature.
	first.artifact(artifacts, ref, bundled)
	o = n.AwaitOther("o", o)
	n.Args = append(n.Args, "--manifest-verify-key", "file="+second.public())
	n.Restart()
	n.AwaitRunning("q")
	n.MustStillRun("p", p)
	n.MustStillRun("u", u)
	n.MustStillRun("o", o)
	two := harness.SleepPod("p", "two")
	n.WriteManifest("p.yaml", two)
	n.WriteManifest("p.yaml.sig", second.blob(two, detached))
	n.AwaitOther("p", p)

	// A daemon whose keys cannot be read does not start, and reports why.
	n.Kill()
	out, err := n.Command("run", "--root-dir", t.TempDir(), "--manifest-verify-key",
		filepath.Join(first.dir, "cosign.key")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "must contain PUBLIC KEYs only, as cosign.pub does") {
		t.Errorf("run with a private key: %v: %s", err, out)
	}
	n.MustStart()
	n.MustStillRun("u", u)
	n.MustStillRun("o", o)
}
