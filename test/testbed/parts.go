package testbed

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed versions.env
var versions string

// Version is a version pinned in versions.env, empty if it is not there.
func Version(name string) string {
	for line := range strings.Lines(versions) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return v
		}
	}
	return ""
}

// Cache is the directory outside the tree that keeps what was built or fetched:
// $XDG_CACHE_HOME/podstead-test, else ~/.cache/podstead-test.
func Cache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = "/var/cache"
	}
	return filepath.Join(dir, "podstead-test")
}

// Variables through which what was built outside is found inside.
const (
	productVar = "PODSTEAD_TESTBED_PRODUCT"
	pauseVar   = "PODSTEAD_TESTBED_PAUSE"
	talkerVar  = "PODSTEAD_TESTBED_TALKER"
)

// Product is the daemon's binary, built by Build.
func Product() string { return os.Getenv(productVar) }

// Talker is a static program that listens on ports, built by Build.
func Talker() string { return os.Getenv(talkerVar) }

// Build checks that the parts are there and builds the pause program, the
// talker and the product, the last as plain `go build` makes it unless PODSTEAD_TESTBED_PRODUCT
// names a binary. It is what Isolate should prepare.
func Build() error {
	if err := BuildPause(); err != nil {
		return err
	}
	if err := build(talkerVar, "talker", "./test/testbed/talker", "-ldflags=-s -w"); err != nil {
		return err
	}
	if Product() != "" {
		return nil
	}
	return build(productVar, "podstead", "./cmd/podstead")
}

// BuildPause checks that the parts are there and builds the pause program only.
func BuildPause() error {
	if err := checkParts(); err != nil {
		return err
	}
	return build(pauseVar, "pause", "./test/testbed/pause", "-ldflags=-s -w")
}

// build builds pkg into the bed's directory and exports its path.
func build(env, name, pkg string, flags ...string) error {
	out := filepath.Join(Dir(), "bin", name)
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", out, pkg)...)
	cmd.Dir = Tree()
	// Static, since one of them is alone in its image.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %v\n%s", pkg, err, msg)
	}
	return os.Setenv(env, out)
}

// Tree is the root of this source tree: the directory with its go.mod, which is
// the working directory or above it. (The paths in a binary that was built with
// -trimpath do not tell.)
func Tree() string {
	dir, err := os.Getwd()
	for err == nil {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(text), "module github.com/podstead/podstead\n") {
			return dir
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		break
	}
	return "."
}

// checkParts reports every part that is missing of those that all kinds of
// runtime need, with what installs it.
func checkParts() error {
	var missing []string
	files := []string{
		"/usr/bin/containerd", "/usr/bin/containerd-shim-runc-v2", "/usr/sbin/runc",
		"/usr/lib/cni/bridge", "/usr/lib/cni/portmap", "/usr/lib/cni/host-local",
		"/usr/sbin/iptables", "/usr/bin/busybox",
	}
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			missing = append(missing, f)
		}
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing: %s\nrun: make setup", strings.Join(missing, ", "))
	}
	return nil
}

// newRunc is where test/setup.sh puts the newer runc.
func newRunc() string { return filepath.Join(Cache(), "runc-"+Version("RUNC_VERSION"), "runc") }

// newContainerd is where test/setup.sh puts a program of the newer containerd.
func newContainerd(name string) string {
	return filepath.Join(Cache(), "containerd-"+Version("CONTAINERD_VERSION"), name)
}

// Kubectl is where test/setup.sh puts kubectl.
func Kubectl() string { return filepath.Join(Cache(), "kubectl-"+Version("KUBECTL_VERSION")) }

// DebianKubectl is where test/setup.sh puts Debian's own, years older.
func DebianKubectl() string { return filepath.Join(Cache(), "kubectl-debian") }

// kubeAPIServer is where test/setup.sh puts Kubernetes' API server.
func kubeAPIServer() string {
	return filepath.Join(Cache(), "kube-apiserver-"+Version("KUBERNETES_VERSION"))
}

// Previous returns the path of podstead as test/setup.sh builds it from the commit
// from which upgrades are tested.
func Previous() string { return filepath.Join(Cache(), "podstead-"+Version("PREVIOUS_COMMIT")) }
