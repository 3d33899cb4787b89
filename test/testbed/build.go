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

// Version returns a version pinned in versions.env, or an empty string.
func Version(name string) string {
	for line := range strings.Lines(versions) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return v
		}
	}
	return ""
}

// Cache returns the directory outside the source tree that keeps built and downloaded
// programs: $XDG_CACHE_HOME/podstead-test, or ~/.cache/podstead-test.
func Cache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = "/var/cache"
	}
	return filepath.Join(dir, "podstead-test")
}

// Environment variables that pass the paths of built programs into the namespaces.
const (
	productVar    = "PODSTEAD_TESTBED_PRODUCT"
	ungatedVar    = "PODSTEAD_TESTBED_UNGATED"
	strippedVar   = "PODSTEAD_TESTBED_STRIPPED"
	pauseVar      = "PODSTEAD_TESTBED_PAUSE"
	portServerVar = "PODSTEAD_TESTBED_PORTSERVER"
)

// Product returns the path of the daemon's binary, which Build builds.
func Product() string { return os.Getenv(productVar) }

// UngatedProduct returns the path of the daemon's binary that BuildUngated builds.
func UngatedProduct() string { return os.Getenv(ungatedVar) }

// productTags are those of make build and of releases.
const productTags = "-tags=grpcnotrace"

// StrippedProgram returns the path of the daemon's binary that BuildStripped builds.
func StrippedProgram() string { return os.Getenv(strippedVar) }

// BuildStripped builds the product as a release has it, without symbols and with inlining only in
// the standard library. The benchmark
// measures its size.
func BuildStripped() error {
	return build(strippedVar, "podstead-release", "./cmd/podstead", productTags, "-trimpath", "-gcflags=all=-l",
		"-gcflags=std=", "-ldflags=-s -w")
}

// BuildUngated builds the product without its limit of concurrent calls to the runtime, which
// the benchmark compares with.
func BuildUngated() error {
	return build(ungatedVar, "podstead-ungated", "./cmd/podstead", productTags,
		"-ldflags=-X github.com/podstead/podstead/cri.ungated=true")
}

// PortServer returns the path of a static program that serves TCP ports, which Build builds.
func PortServer() string { return os.Getenv(portServerVar) }

// Build checks the dependencies and builds the pause program, the port server and the product,
// with the tags of `make build`. It builds none whose variable, such as PODSTEAD_TESTBED_PRODUCT,
// names a binary already, as those of test/e2e/run.sh do. Pass it to Isolate.
func Build() error {
	if err := BuildPause(); err != nil {
		return err
	}
	if err := build(portServerVar, "portserver", "./test/testbed/portserver", "-ldflags=-s -w"); err != nil {
		return err
	}
	return build(productVar, "podstead", "./cmd/podstead", productTags)
}

// BuildPause checks the dependencies and builds only the pause program.
func BuildPause() error {
	if err := checkDependencies(); err != nil {
		return err
	}
	return build(pauseVar, "pause", "./test/testbed/pause", "-ldflags=-s -w")
}

// build builds pkg into the test bed's directory and exports its path as an environment
// variable, unless the variable names a binary already.
func build(env, name, pkg string, flags ...string) error {
	if os.Getenv(env) != "" {
		return nil
	}
	out := filepath.Join(Dir(), "bin", name)
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", out, pkg)...)
	cmd.Dir = SourceRoot()
	// Static, because pause is the only file of its image.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("failed to build %s: %v\n%s", pkg, err, msg)
	}
	return os.Setenv(env, out)
}

// SourceRoot returns the root of this source tree: the closest directory with the module's
// go.mod, starting at the working directory. (Binaries built with -trimpath do not contain the
// path.)
func SourceRoot() string {
	dir, err := os.Getwd()
	for err == nil {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil &&
			strings.HasPrefix(string(text), "module github.com/podstead/podstead\n") {
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

// checkDependencies reports each missing program that both kinds of runtime need, and how to
// install it.
func checkDependencies() error {
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

// newRunc returns the path at which test/setup.sh installs the newer runc.
func newRunc() string { return filepath.Join(Cache(), "runc-"+Version("RUNC_VERSION"), "runc") }

// newContainerd returns the path at which test/setup.sh installs a program of the newer
// containerd.
func newContainerd(name string) string {
	return filepath.Join(Cache(), "containerd-"+Version("CONTAINERD_VERSION"), name)
}

// Kubectl returns the path at which test/setup.sh installs kubectl.
func Kubectl() string { return filepath.Join(toolsDir(), "bin/kubectl") }

// Cosign returns the path at which test/setup.sh installs cosign.
func Cosign() string { return filepath.Join(toolsDir(), "bin/cosign") }

// SampleDevicePlugin returns the path at which test/setup.sh installs Kubernetes' device plugin for
// tests. It provides two devices of example.com/resource, which are files in /tmp.
func SampleDevicePlugin() string {
	return filepath.Join(Cache(), "sample-device-plugin-"+Version("KUBERNETES_VERSION"))
}

// draTestDriver returns the path at which test/setup.sh installs Kubernetes' driver of dynamic resource
// allocation for tests.
func draTestDriver() string {
	return filepath.Join(Cache(), "dra-test-driver-"+Version("KUBERNETES_VERSION"))
}

// CSIDriver returns the path at which test/setup.sh installs the CSI driver of test/csidriver.
func CSIDriver() string {
	dir := filepath.Join(SourceRoot(), "test/csidriver")
	return filepath.Join(Cache(), "csi-driver-"+sourcesHash(filepath.Join(dir, "go.mod"), filepath.Join(dir, "*.go")))
}

// csiController returns the path at which test/setup.sh installs csi-attacher or csi-resizer.
func csiController(name string) string {
	return filepath.Join(Cache(), "csi-controllers-"+
		sourcesHash(filepath.Join(SourceRoot(), "test/csicontrollers/go.mod"), ""), name)
}

// AptRepository returns the directory in which test/setup.sh puts the packages that podstead's
// package recommends, as an apt repository.
func AptRepository() string { return filepath.Join(Cache(), "apt-repository-1") }

// DebianKubectl returns the path at which test/setup.sh installs Debian's kubectl, which is
// years older.
func DebianKubectl() string {
	return filepath.Join(Cache(), "kubernetes-client-debian/usr/bin/kubectl")
}

// PreviousVersions returns the paths of the podsteads that test/setup.sh builds from the commits
// from which upgrades are tested, by the first characters of the commit.
func PreviousVersions() map[string]string {
	paths := map[string]string{}
	for _, commit := range strings.Split(Version("PREVIOUS_COMMITS"), ",") {
		paths[commit[:7]] = filepath.Join(Cache(), "podstead-"+commit)
	}
	return paths
}
