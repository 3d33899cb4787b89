package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// tenants is a node that runs the pods of two namespaces of a cluster.
type tenants struct {
	*harness.Node
	*harness.Admin
	config string // the file of --config
}

// newTenants starts a cluster with the namespaces tenant-a and tenant-b, and joins it.
func newTenants(ctx context.Context, n *harness.Node) *tenants {
	n.T.Helper()
	_, a, kubeconfig := harness.NewCluster(ctx, n)
	s := &tenants{n, a, filepath.Join(n.Dir(), "config.yaml")}
	n.Args = append(n.Args, "--kubeconfig", kubeconfig, "--config", s.config)
	for _, namespace := range []string{"tenant-a", "tenant-b"} {
		a.Create("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + "}\n---\n" +
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: " + namespace +
			"}\nautomountServiceAccountToken: false\n")
	}
	return s
}

// verify starts the daemon, again if it runs, with fields of its configuration.
func (s *tenants) verify(fields string) {
	s.Node.T.Helper()
	if err := os.WriteFile(s.config,
		[]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+fields), 0o600); err != nil {
		s.Node.T.Fatal(err)
	}
	s.Restart()
}

// run creates a pod of a tenant with a pull policy, and with a pull secret unless it is empty.
func (s *tenants) run(namespace, name, image, policy, secret string) {
	s.Node.T.Helper()
	spec := ""
	if secret != "" {
		spec = "imagePullSecrets: [{name: " + secret + "}]\n"
	}
	text := s.ClusterPod(name, image, spec, "imagePullPolicy: "+policy+"\n")
	s.Create(strings.Replace(text, "metadata: {", "metadata: {namespace: "+namespace+", ", 1))
}

// login creates a pull secret of a tenant.
func (s *tenants) login(namespace, name, password string) {
	s.Node.T.Helper()
	text := harness.PullSecret(name, harness.DockerConfig("https://index.docker.io/v1/", "bob", password))
	s.Create(strings.Replace(text, "metadata: {", "metadata: {namespace: "+namespace+", ", 1))
}

// awaitNoImage waits until a pod cannot use an image that is present.
func (s *tenants) awaitNoImage(name, policy, image string) {
	s.Node.T.Helper()
	if policy == "Never" {
		s.AwaitPullError(name, "ErrImageNeverPull",
			fmt.Sprintf("Container image %q is not present with pull policy of Never", image))
		return
	}
	s.AwaitPullError(name, "ImagePullBackOff", "uthoriz")
}

// An image that one tenant's secret pulled is not another tenant's: the other needs
// credentials of its own, while the tenant's own pods start without a registry. This
// holds across restarts of the daemon. Preloaded images, static pods and the other
// policies are as documented.
func TestImagePullCredentials(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		ctx := t.Context()
		s := newTenants(ctx, n)
		repository, password := "tenant-"+n.Name+"/app", "pass-word-"+n.Name
		private, _ := n.Push(repository)
		harness.Registry.Protect(repository, "bob", password)
		s.login("tenant-a", "login", password)
		s.login("tenant-b", "wrong", "no-"+password)
		s.verify("")
		s.run("tenant-a", "first", private, "IfNotPresent", "login")
		first := n.AwaitRunning("first")
		// From here on no pull succeeds with the tenant's login.
		harness.Registry.Protect(repository, "bob", "changed-"+password)

		s.run("tenant-b", "without", private, "IfNotPresent", "")
		s.run("tenant-b", "never", private, "Never", "")
		s.run("tenant-b", "wrong", private, "IfNotPresent", "wrong")
		s.run("tenant-a", "second", private, "IfNotPresent", "login")
		refused := func() {
			t.Helper()
			s.awaitNoImage("without", "", private)
			s.awaitNoImage("never", "Never", private)
			s.awaitNoImage("wrong", "", private)
			for _, name := range []string{"without", "never", "wrong"} {
				if found, err := n.Running(name); err != nil || len(found) > 0 {
					t.Errorf("pod %s has the image: %v (%v)", name, found, err)
				}
			}
		}
		refused()
		n.AwaitRunning("second")

		// The records survive the daemon, with no secret in them.
		n.Restart()
		n.MustStillRun("first", first)
		s.run("tenant-a", "third", private, "Never", "login")
		n.AwaitRunning("third")
		refused()
		mustNotStore(n, password)
		// A Secret of its own with the same login is access.
		s.login("tenant-b", "same", password)
		s.run("tenant-b", "same", private, "IfNotPresent", "same")
		n.AwaitRunning("same")

		// A manifest is the node owner's, and may use whatever is on the disk.
		n.WriteManifest("static.yaml", harness.ImagePod("static", private, ""))
		n.AwaitRunning("static")

		// An image that the owner loaded is everyone's.
		archive, loaded := filepath.Join(n.Dir(), "loaded.tar"), "registry.nowhere.test/"+n.Name+":1"
		harness.SaveImage(t, archive, loaded, harness.ImageWithFile(t, n.Name))
		n.LoadImages(archive)
		s.run("tenant-b", "preloaded", loaded, "Never", "")
		n.AwaitRunning("preloaded")

		// AlwaysVerify trusts no image, and ends nothing that runs.
		s.verify("imagePullCredentialsVerificationPolicy: AlwaysVerify\n")
		if got := n.Configz()["imagePullCredentialsVerificationPolicy"]; got != "AlwaysVerify" {
			t.Errorf("/configz has %v", got)
		}
		n.MustStillRun("first", first)
		s.run("tenant-b", "verified", loaded, "Never", "")
		s.awaitNoImage("verified", "Never", loaded)
		n.WriteManifest("offline.yaml", harness.ImagePod("offline", loaded, ""))
		n.AwaitRunning("offline")

		s.verify("imagePullCredentialsVerificationPolicy: " +
			"NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [registry.nowhere.test/" + n.Name + "]\n")
		n.AwaitRunning("verified")
		refused()

		s.verify("imagePullCredentialsVerificationPolicy: NeverVerify\n")
		for _, name := range []string{"without", "never", "wrong"} {
			n.AwaitRunning(name)
		}
	})
}

// mustNotStore fails the test if a word is in a file of the image pull records, or if there
// are none.
func mustNotStore(n *harness.Node, word string) {
	n.T.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(n.Root, "image-pulls"), func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the daemon has replaced it meanwhile
		}
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files++
		if strings.Contains(string(data), word) {
			n.T.Errorf("%s contains %q", path, word)
		}
		return err
	})
	if err != nil || files == 0 {
		n.T.Errorf("%d files of records (%v)", files, err)
	}
}
