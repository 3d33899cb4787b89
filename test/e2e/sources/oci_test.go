package sources

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/image"
)

func newArtifactServer(t *testing.T, password string) *harness.ArtifactServer {
	t.Helper()
	// The port stays free when the server is closed, until it is used again.
	s := &harness.ArtifactServer{T: t, Addr: harness.FreeAddress(),
		Login: image.Login{User: "bob", Password: password, Bearer: true}}
	s.Registry.AcceptPushes = true
	s.Config = harness.DockerConfig(s.Addr, "bob", password)
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// awaitNoFault waits until no manifest has a fault.
func awaitNoFault(n *harness.Node) {
	n.T.Helper()
	n.Await("no manifest has a fault", func() error {
		body, err := n.Get(n.T.Context(), "/podstead/v1/manifests")
		if err == nil && strings.Contains(string(body), `"fault`) {
			err = fmt.Errorf("%s", body)
		}
		return err
	})
}

// One push changes the pods of a node that follows the tag, as a whole or not at all; what
// happens to the registry changes nothing.
func TestOCIManifests(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		password := "pass-word-" + n.Name
		s := newArtifactServer(t, password)
		ref := s.Addr + "/fleet/web:stable"
		s.Push(ref, map[string]string{"p.yaml": harness.SleepPod("p", "one"),
			"nested/deep/q.yaml": harness.SleepPod("q", "one"), "README.md": "no manifest"})
		n.Args = []string{"--manifest-oci", ref, "--http-check-frequency", "200ms"}
		n.MustStart()
		n.AwaitManifestError("401 Unauthorized", "check the node's credentials for this repository")
		harness.WriteAll(t, n.Root, map[string]string{"config.json": s.Config})
		p, q := n.AwaitRunning("p"), n.AwaitRunning("q")
		awaitNoFault(n)

		s.Push(ref, map[string]string{"p.yaml": harness.SleepPod("p", "one"),
			"nested/deep/q.yaml": harness.SleepPod("q", "two")})
		q = n.AwaitOther("q", q)
		n.MustStillRun("p", p)
		n.CLI(0, []string{"oci " + ref + ": 2 pods in 1 artifact", s.Addr + "/fleet/web@sha256:"}, "status")

		// A valid file of an invalid revision has no effect.
		s.Push(ref, map[string]string{"p.yaml": harness.SleepPod("p", "two"), "nested/deep/q.yaml": "kind: Pod\nspec: []\n"})
		n.AwaitManifestError(s.Addr + "/fleet/web#nested/deep/q.yaml:")
		n.MustStillRun("p", p)
		n.MustStillRun("q", q)
		n.CLI(1, []string{"fault", "nested/deep/q.yaml"}, "status")

		// The same manifests in another form are the same pods.
		s.PushArchive(ref, map[string]string{"./all/p.yaml": harness.SleepPod("p", "one"),
			"./q.yaml": harness.SleepPod("q", "two")})
		awaitNoFault(n)
		n.MustStillRun("p", p)
		n.MustStillRun("q", q)

		if err := s.Registry.Untag(ref); err != nil {
			t.Fatal(err)
		}
		n.AwaitManifestError("does not have it; last read at ", "push the tag again")
		s.Stop()
		n.AwaitManifestError("cannot reach the registry")
		n.Restart()
		n.AwaitManifestError("cannot reach the registry")
		n.MustStillRun("p", p)
		n.MustStillRun("q", q)

		// A host that boots without the registry runs the manifests of the checkpoint.
		n.Kill()
		n.RemovePods()
		n.MustStart()
		n.AwaitOther("p", p)
		q = n.AwaitOther("q", q)
		s.Start()
		s.PushArchive(ref, map[string]string{"q.yaml": harness.SleepPod("q", "two")})
		n.AwaitGone("p")
		n.MustStillRun("q", q)
		n.MustNotLog(password)
	})
}

// A reference by digest needs no registry once it was read; without the flag its pods end.
func TestOCIManifestsByDigest(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		s := newArtifactServer(t, "pass-word")
		harness.WriteAll(t, n.Root, map[string]string{"config.json": s.Config})
		digest, err := s.Registry.PushArtifact(s.Addr+"/fleet/web:v1",
			image.Artifact{Layers: []image.Layer{
				image.Blob("application/yaml", "p.yaml", []byte(harness.SleepPod("p", "one")))}})
		if err != nil {
			t.Fatal(err)
		}
		n.Args = []string{"--manifest-oci", s.Addr + "/fleet/web@" + digest}
		n.MustStart()
		p := n.AwaitRunning("p")
		s.Stop()
		n.Restart()
		n.AwaitReady("p")
		n.AwaitManifestError(`"delivered":true,"time"`, digest)
		awaitNoFault(n)
		n.MustStillRun("p", p)
		n.Args = nil
		n.Restart()
		n.AwaitGone("p")
	})
}
