package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// artifactServer is a registry on loopback that requires a login, and that can stop and start
// again.
type artifactServer struct {
	t        *testing.T
	registry image.Registry
	login    image.Login
	addr     string
	server   *http.Server
	// config is docker's configuration with the login.
	config string
}

func newArtifactServer(t *testing.T, password string) *artifactServer {
	t.Helper()
	// The port stays free when the server is closed, until it is used again.
	s := &artifactServer{t: t, addr: freeAddress(), login: image.Login{User: "bob", Password: password, Bearer: true}}
	s.registry.AcceptPushes = true
	s.config = dockerConfig(s.addr, "bob", password)
	s.start()
	t.Cleanup(s.stop)
	return s
}

// start serves the artifacts at the address of the server, also after stop.
func (s *artifactServer) start() {
	s.t.Helper()
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.server = &http.Server{Handler: s.login.Require(&s.registry)}
	go func() { _ = s.server.Serve(l) }()
}

// stop closes the server and its connections.
func (s *artifactServer) stop() { _ = s.server.Close() }

// orasProgram returns the path of oras.
func orasProgram() string {
	return filepath.Join(testbed.Cache(), "oras-"+testbed.Version("ORAS_VERSION"), "oras")
}

// push pushes files with oras; a name that ends in a slash is a directory.
func (s *artifactServer) push(ref string, files map[string]string) {
	s.t.Helper()
	dir := s.t.TempDir()
	var names []string
	seen := map[string]bool{}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			s.t.Fatal(err)
		}
		if first, _, nested := strings.Cut(name, "/"); nested {
			name = first + "/"
		}
		if !seen[name] {
			names = append(names, name)
		}
		seen[name] = true
	}
	login := filepath.Join(s.t.TempDir(), "config.json")
	if err := os.WriteFile(login, []byte(s.config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), orasProgram(),
		append([]string{"push", "--plain-http", "--registry-config", login, ref}, names...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("oras push %v: %v\n%s", names, err, out)
	}
}

// pushArchive pushes an archive of files with the media types of flux push artifact.
func (s *artifactServer) pushArchive(ref string, files map[string]string) {
	s.t.Helper()
	var list []image.File
	for name, content := range files {
		list = append(list, image.File{Name: name, Data: []byte(content), Mode: 0o644})
	}
	archive, err := image.Tar(list)
	if err != nil {
		s.t.Fatal(err)
	}
	zipped, err := image.GzipLayer(archive)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.registry.PushArtifact(ref, image.Artifact{
		Config: image.Blob("application/vnd.cncf.flux.config.v1+json", "", []byte("{}")),
		Layers: []image.Layer{image.Blob("application/vnd.cncf.flux.content.v1.tar+gzip", "", zipped.Data)},
	}); err != nil {
		s.t.Fatal(err)
	}
}

// awaitNoFault waits until no manifest has a fault.
func (n *node) awaitNoFault() {
	n.t.Helper()
	n.await("no manifest has a fault", func() error {
		body, err := n.Get(n.t.Context(), "/podstead/v1/manifests")
		if err == nil && strings.Contains(string(body), `"fault`) {
			err = fmt.Errorf("%s", body)
		}
		return err
	})
}

// One push changes the pods of a node that follows the tag, as a whole or not at all; what
// happens to the registry changes nothing.
func TestOCIManifests(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		password := "pass-word-" + n.Name
		s := newArtifactServer(t, password)
		ref := s.addr + "/fleet/web:stable"
		s.push(ref, map[string]string{"p.yaml": sleepPod("p", "one"), "nested/deep/q.yaml": sleepPod("q", "one"), "README.md": "no manifest"})
		n.Args = []string{"--manifest-oci", ref, "--http-check-frequency", "200ms"}
		n.start()
		n.awaitManifestError("401 Unauthorized", "check the node's credentials for this repository")
		writeAll(t, n.Root, map[string]string{"config.json": s.config})
		p, q := n.awaitRunning("p"), n.awaitRunning("q")
		n.awaitNoFault()

		s.push(ref, map[string]string{"p.yaml": sleepPod("p", "one"), "nested/deep/q.yaml": sleepPod("q", "two")})
		q = n.awaitOther("q", q)
		n.mustStillRun("p", p)
		n.cli(0, []string{"oci " + ref + ": 2 pods in 1 artifact", s.addr + "/fleet/web@sha256:"}, "status")

		// A valid file of an invalid revision has no effect.
		s.push(ref, map[string]string{"p.yaml": sleepPod("p", "two"), "nested/deep/q.yaml": "kind: Pod\nspec: []\n"})
		n.awaitManifestError(s.addr + "/fleet/web#nested/deep/q.yaml:")
		n.mustStillRun("p", p)
		n.mustStillRun("q", q)
		n.cli(1, []string{"fault", "nested/deep/q.yaml"}, "status")

		// The same manifests in another form are the same pods.
		s.pushArchive(ref, map[string]string{"./all/p.yaml": sleepPod("p", "one"), "./q.yaml": sleepPod("q", "two")})
		n.awaitNoFault()
		n.mustStillRun("p", p)
		n.mustStillRun("q", q)

		if err := s.registry.Untag(ref); err != nil {
			t.Fatal(err)
		}
		n.awaitManifestError("does not have it; last read at ", "push the tag again")
		s.stop()
		n.awaitManifestError("cannot reach the registry")
		n.restart()
		n.awaitManifestError("cannot reach the registry")
		n.mustStillRun("p", p)
		n.mustStillRun("q", q)

		// A host that boots without the registry runs the manifests of the checkpoint.
		n.Kill()
		n.removePods()
		n.start()
		n.awaitOther("p", p)
		q = n.awaitOther("q", q)
		s.start()
		s.pushArchive(ref, map[string]string{"q.yaml": sleepPod("q", "two")})
		n.awaitGone("p")
		n.mustStillRun("q", q)
		n.mustNotLog(password)
	})
}

// A reference by digest needs no registry once it was read; without the flag its pods end.
func TestOCIManifestsByDigest(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		s := newArtifactServer(t, "pass-word")
		writeAll(t, n.Root, map[string]string{"config.json": s.config})
		digest, err := s.registry.PushArtifact(s.addr+"/fleet/web:v1", image.Artifact{Layers: []image.Layer{image.Blob("application/yaml", "p.yaml", []byte(sleepPod("p", "one")))}})
		if err != nil {
			t.Fatal(err)
		}
		n.Args = []string{"--manifest-oci", s.addr + "/fleet/web@" + digest}
		n.start()
		p := n.awaitRunning("p")
		s.stop()
		n.restart()
		n.awaitReady("p")
		n.awaitManifestError(`"delivered":true,"time"`, digest)
		n.awaitNoFault()
		n.mustStillRun("p", p)
		n.Args = nil
		n.restart()
		n.awaitGone("p")
	})
}
