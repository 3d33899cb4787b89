package systemd

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// The unit under a real systemd: containers keep their processes whatever happens to the
// daemon, with the system's runtime and with podstead's own.
func TestSystemd(t *testing.T) {
	t.Parallel()
	for _, private := range []bool{false, true} {
		name := "system runtime"
		if private {
			name = "private runtime"
		}
		t.Run(name, func(t *testing.T) {
			s := boot(t, private, map[string]string{
				"etc/podstead/config.yaml": "apiVersion: podstead.io/v1alpha1\nkind: PodsteadConfiguration\nnodeLabels: " +
					"{place: file}\n",
				"etc/podstead/config.d/10-ds.conf": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: " +
					"KubeletConfiguration\nmaxPods: 12\n",
			})
			n := s.Node()
			p := n.AwaitRunning("p")
			if out := s.Try("podstead", "get", "nodes", "-o", "json"); !strings.Contains(out, `"place": "file"`) ||
				!strings.Contains(out, `"pods": "12"`) {
				t.Errorf("the files in /etc/podstead have no effect: %s", out)
			}
			daemon := s.MainPid()
			// With the private runtime there is a name server, which outlives the service too.
			nameservers := nameserverPIDs(s)
			if count := len(strings.Fields(nameservers)); private && count != 1 || !private && count != 0 {
				t.Errorf("processes of the name server: %q", nameservers)
			}
			for _, step := range []struct {
				name string
				do   func()
			}{
				{"systemctl restart", func() { s.Run("systemctl", "restart", "podstead") }},
				{"kill -9", func() { s.Run("sh", "-c", "kill -9 "+daemon) }},
				{"watchdog", func() { s.Run("sh", "-c", "kill -STOP "+daemon) }}, // after a minute
			} {
				step.do()
				var now string
				n.Await("another daemon is active after "+step.name, func() error {
					now = s.MainPid()
					if state := s.Try("systemctl", "is-active", "podstead"); state != "active" || now == daemon || now == "0" {
						return fmt.Errorf("podstead is %s as %s, was %s", state, now, daemon)
					}
					return nil
				})
				daemon = now
				// The daemon is ready after the restart: it has listed the running pods.
				n.Await("the daemon reports the pod", func() error {
					if out := s.Try("podstead", "get", "pods"); !strings.Contains(out, "Running") {
						return errors.New(out)
					}
					return nil
				})
				n.MustStillRun("p", p)
			}
			s.Run("sh", "-c", "rm /etc/pods/p.yaml")
			n.AwaitGone("p")
			s.Run("systemctl", "stop", "podstead")
			if now := nameserverPIDs(s); now != nameservers {
				t.Errorf("the name server is process %q after the service was stopped, was %q", now, nameservers)
			}
		})
	}
}

// nameserverPIDs returns the processes of the name server of pods.
func nameserverPIDs(s *harness.Machine) string {
	return s.Try("sh", "-c",
		`for f in /proc/[0-9]*/cmdline; do tr '\000' ' ' <$f 2>/dev/null | grep -q '^podstead nameserver --directory' && echo $f; done`)
}

// boot boots the root directory of test/setup.sh with the product, the unit and one manifest,
// and waits until the unit is active. more replaces or adds files.
func boot(t *testing.T, private bool, more ...map[string]string) *harness.Machine {
	t.Helper()
	s := harness.UnpackMachine(t)
	unit, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples", "podstead.service"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"etc/systemd/system/podstead.service":        string(unit),
		"etc/containerd/certs.d/_default/hosts.toml": testbed.HostsTOML(s.Registry),
		"etc/containerd/config.toml":                 testbed.SystemContainerd16,
		"etc/cni/net.d/10-bed.conflist":              testbed.SystemCNI,
		"etc/pods/p.yaml": strings.Replace(harness.SleepPod("p", "one"), "spec:\n",
			"spec:\n  hostNetwork: true\n", 1),
	}
	if private {
		files["var/lib/podstead/containerd/certs.d/_default/hosts.toml"] = testbed.HostsTOML(s.Registry)
		delete(files, "etc/containerd/config.toml")
		delete(files, "etc/cni/net.d/10-bed.conflist")
	}
	for _, m := range more {
		maps.Copy(files, m)
	}
	s.WriteFiles(files)
	harness.CopyFile(t, testbed.Product(), filepath.Join(s.Root, "usr/local/bin/podstead"))
	if private {
		// Otherwise the daemon waits for it, as it was installed a moment ago.
		if err := errors.Join(os.Remove(filepath.Join(s.Root, harness.UnitWants, "containerd.service")),
			os.Symlink("/dev/null", filepath.Join(s.Root, "etc/systemd/system/containerd.service"))); err != nil {
			t.Fatal(err)
		}
	}
	s.Enable("podstead.service")

	t.Cleanup(s.CutPower)
	s.PowerOn()
	return s
}
