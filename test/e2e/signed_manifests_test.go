package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

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
func (c *cosigner) artifact(s *artifactServer, ref string, options []string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "config.json"), []byte(s.config), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.run([]string{"DOCKER_CONFIG=" + c.dir}, append(append([]string{"sign", "-y", "--key", "cosign.key", "--allow-http-registry"}, options...), ref)...)
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
	n := newNode(t, sharedRuntime(t, kinds[len(kinds)-1])) // the runtime makes no difference
	first, second := newCosigner(t), newCosigner(t)
	web := &pages{files: map[string]string{}}
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	artifacts := newArtifactServer(t, "pass-word-"+n.Name)
	ref := artifacts.addr + "/fleet/web:stable"
	writeAll(t, n.Root, map[string]string{"config.json": artifacts.config})
	n.Args = []string{"--manifest-verify-key", first.public(), "--manifest-url", server.URL + "/pods.yaml", "--manifest-oci", ref, "--http-check-frequency", "200ms"}

	one := sleepPod("p", "one")
	n.writeManifest("p.yaml.sig", first.blob(one, detached))
	n.writeManifest("p.yaml", one)
	body := sleepPod("u", "one")
	web.set("/pods.yaml", body)
	artifacts.push(ref, map[string]string{"o.yaml": sleepPod("o", "one")})
	n.start()
	p := n.awaitRunning("p")
	n.awaitManifestError("is not signed: there is no " + server.URL + "/pods.yaml.sig")
	n.awaitManifestError("is not signed: there is no signature of " + ref)
	web.set("/pods.yaml.sig", first.blob(body, bundled))
	first.artifact(artifacts, ref, detached)
	u, o := n.awaitRunning("u"), n.awaitRunning("o")
	n.awaitNoFault()

	// A byte more, and a signature by another key.
	n.writeManifest("p.yaml", one+"#\n")
	n.awaitManifestError("p.yaml.sig fits none of the keys")
	q := sleepPod("q", "one")
	n.writeManifest("q.yaml.sig", second.blob(q, bundled))
	n.writeManifest("q.yaml", q)
	n.awaitManifestError("q.yaml.sig fits none of the keys")
	artifacts.push(ref, map[string]string{"o.yaml": sleepPod("o", "two")})
	second.artifact(artifacts, ref, detached)
	n.awaitManifestError("none of the 1 signatures of "+ref, "fits none of the keys")
	web.set("/pods.yaml", sleepPod("u", "two"))
	n.awaitManifestError("/pods.yaml.sig fits none of the keys")
	n.mustStillRun("p", p)
	n.mustStillRun("u", u)
	n.mustStillRun("o", o)

	// Rotation: signatures by both keys are valid. The bundle replaces no signature.
	first.artifact(artifacts, ref, bundled)
	o = n.awaitOther("o", o)
	n.Args = append(n.Args, "--manifest-verify-key", "file="+second.public())
	n.restart()
	n.awaitRunning("q")
	n.mustStillRun("p", p)
	n.mustStillRun("u", u)
	n.mustStillRun("o", o)
	two := sleepPod("p", "two")
	n.writeManifest("p.yaml", two)
	n.writeManifest("p.yaml.sig", second.blob(two, detached))
	n.awaitOther("p", p)

	// A daemon whose keys cannot be read does not start, and says why.
	n.Kill()
	out, err := n.Command("run", "--root-dir", t.TempDir(), "--manifest-verify-key", filepath.Join(first.dir, "cosign.key")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "must contain PUBLIC KEYs only, as cosign.pub does") {
		t.Errorf("run with a private key: %v: %s", err, out)
	}
	n.start()
	n.mustStillRun("u", u)
	n.mustStillRun("o", o)
}
