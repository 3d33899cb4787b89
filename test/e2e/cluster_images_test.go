package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tenants is a node that runs the pods of two namespaces of a cluster.
type tenants struct {
	*node
	*admin
	config string // the file of --config
}

// newTenants starts a cluster with the namespaces tenant-a and tenant-b, and joins it.
func newTenants(ctx context.Context, n *node) *tenants {
	n.t.Helper()
	_, a, kubeconfig := newCluster(ctx, n)
	s := &tenants{n, a, filepath.Join(n.Dir(), "config.yaml")}
	n.Args = append(n.Args, "--kubeconfig", kubeconfig, "--config", s.config)
	for _, namespace := range []string{"tenant-a", "tenant-b"} {
		a.create("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + "}\n---\n" +
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: " + namespace + "}\nautomountServiceAccountToken: false\n")
	}
	return s
}

// verify starts the daemon, again if it runs, with fields of its configuration.
func (s *tenants) verify(fields string) {
	s.node.t.Helper()
	if err := os.WriteFile(s.config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+fields), 0o600); err != nil {
		s.node.t.Fatal(err)
	}
	s.restart()
}

// run creates a pod of a tenant with a pull policy, and with a pull secret unless it is empty.
func (s *tenants) run(namespace, name, image, policy, secret string) {
	s.node.t.Helper()
	spec := ""
	if secret != "" {
		spec = "imagePullSecrets: [{name: " + secret + "}]\n"
	}
	text := s.clusterPod(name, image, spec, "imagePullPolicy: "+policy+"\n")
	s.create(strings.Replace(text, "metadata: {", "metadata: {namespace: "+namespace+", ", 1))
}

// login creates a pull secret of a tenant.
func (s *tenants) login(namespace, name, password string) {
	s.node.t.Helper()
	text := pullSecret(name, dockerConfig("https://index.docker.io/v1/", "bob", password))
	s.create(strings.Replace(text, "metadata: {", "metadata: {namespace: "+namespace+", ", 1))
}

// awaitNoImage waits until a pod cannot use an image that is present.
func (s *tenants) awaitNoImage(name, policy, image string) {
	s.node.t.Helper()
	if policy == "Never" {
		s.awaitPullError(name, "ErrImageNeverPull", fmt.Sprintf("Container image %q is not present with pull policy of Never", image))
		return
	}
	s.awaitPullError(name, "ImagePullBackOff", "uthoriz")
}

// An image that one tenant's secret pulled is not another tenant's: the other needs
// credentials of its own, while the tenant's own pods start without a registry. This
// holds across restarts of the daemon. Preloaded images, static pods and the other
// policies are as documented.
func TestImagePullCredentials(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		ctx := t.Context()
		s := newTenants(ctx, n)
		repository, password := "tenant-"+n.Name+"/app", "pass-word-"+n.Name
		private, _ := n.push(repository)
		registry.Protect(repository, "bob", password)
		s.login("tenant-a", "login", password)
		s.login("tenant-b", "wrong", "no-"+password)
		s.verify("")
		s.run("tenant-a", "first", private, "IfNotPresent", "login")
		first := n.awaitRunning("first")
		// From here on no pull succeeds with the tenant's login.
		registry.Protect(repository, "bob", "changed-"+password)

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
				if found, err := n.running(name); err != nil || len(found) > 0 {
					t.Errorf("pod %s has the image: %v (%v)", name, found, err)
				}
			}
		}
		refused()
		n.awaitRunning("second")

		// The records survive the daemon, with no secret in them.
		n.restart()
		n.mustStillRun("first", first)
		s.run("tenant-a", "third", private, "Never", "login")
		n.awaitRunning("third")
		refused()
		n.mustNotStore(password)
		// A Secret of its own with the same login is access.
		s.login("tenant-b", "same", password)
		s.run("tenant-b", "same", private, "IfNotPresent", "same")
		n.awaitRunning("same")

		// A manifest is the node owner's, and may use whatever is on the disk.
		n.writeManifest("static.yaml", imagePod("static", private, ""))
		n.awaitRunning("static")

		// An image that the owner loaded is everyone's.
		archive, loaded := filepath.Join(n.Dir(), "loaded.tar"), "registry.nowhere.test/"+n.Name+":1"
		saveImage(t, archive, loaded, imageWithFile(t, n.Name))
		n.loadImages(archive)
		s.run("tenant-b", "preloaded", loaded, "Never", "")
		n.awaitRunning("preloaded")

		// AlwaysVerify trusts no image, and ends nothing that runs.
		s.verify("imagePullCredentialsVerificationPolicy: AlwaysVerify\n")
		if got := n.configz()["imagePullCredentialsVerificationPolicy"]; got != "AlwaysVerify" {
			t.Errorf("/configz has %v", got)
		}
		n.mustStillRun("first", first)
		s.run("tenant-b", "verified", loaded, "Never", "")
		s.awaitNoImage("verified", "Never", loaded)
		n.writeManifest("offline.yaml", imagePod("offline", loaded, ""))
		n.awaitRunning("offline")

		s.verify("imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [registry.nowhere.test/" + n.Name + "]\n")
		n.awaitRunning("verified")
		refused()

		s.verify("imagePullCredentialsVerificationPolicy: NeverVerify\n")
		for _, name := range []string{"without", "never", "wrong"} {
			n.awaitRunning(name)
		}
	})
}

// mustNotStore fails the test if a word is in a file of the image pull records, or if there
// are none.
func (n *node) mustNotStore(word string) {
	n.t.Helper()
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
			n.t.Errorf("%s contains %q", path, word)
		}
		return err
	})
	if err != nil || files == 0 {
		n.t.Errorf("%d files of records (%v)", files, err)
	}
}
