package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// The Debian package under a real systemd: after its installation a manifest runs; an upgrade, a
// removal, a purge and another installation leave the containers their processes; a purge
// without pods leaves nothing but data of volumes.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	first := buildPackages(t)
	lintian(t, first)
	second := raiseVersion(t, first, "9.9.9-1")
	s := unpackMachine(t)
	s.writeFiles(map[string]string{
		"etc/containerd/certs.d/_default/hosts.toml": testbed.HostsTOML(registry.Addr()),
		"etc/containerd/config.toml":                 testbed.SystemContainerd16,
		"etc/cni/net.d/10-bed.conflist":              testbed.SystemCNI,
	})
	copyFile(t, first, filepath.Join(s.root, "root/first.deb"))
	copyFile(t, second, filepath.Join(s.root, "root/second.deb"))
	t.Cleanup(s.cutPower)
	s.startInit()
	await(t, "containerd is active", func() error {
		if state := s.try("systemctl", "is-active", "containerd"); state != "active" {
			return errors.New(state)
		}
		return nil
	})

	s.run("dpkg", "-i", "/root/first.deb")
	s.mustBe("active", "enabled")
	s.run("sh", "-c", "cat > /etc/pods/p.yaml <<'E'\n"+strings.Replace(sleepPod("p", "one"), "spec:\n", "spec:\n  hostNetwork: true\n", 1)+"\nE")
	n := s.node()
	p := n.awaitRunning("p")
	for _, path := range []string{"/usr/share/man/man1/podstead-run.1.gz", "/usr/share/bash-completion/completions/podstead", "/etc/podstead/config.yaml"} {
		s.run("test", "-s", path)
	}

	daemon := s.mainPid()
	s.run("dpkg", "-i", "/root/second.deb")
	s.mustBe("active", "enabled")
	if now := s.mainPid(); now == daemon || now == "0" {
		t.Errorf("after the upgrade the daemon is %s, before it was %s", now, daemon)
	}
	n.mustStillRun("p", p)

	if out := s.try("dpkg", "-r", "podstead"); !strings.Contains(out, "the pods keep running") {
		t.Errorf("removal: %s", out)
	}
	if state := s.try("systemctl", "is-active", "podstead"); state == "active" {
		t.Error("the daemon is active after the removal")
	}
	n.mustStillRun("p", p)
	if out := s.try("dpkg", "-P", "podstead"); !strings.Contains(out, "pods still run, so /var/lib/podstead stays") || !strings.Contains(out, "/etc/pods is not empty and stays") {
		t.Errorf("purge with a pod: %s", out)
	}
	n.mustStillRun("p", p)

	s.run("dpkg", "-i", "/root/second.deb")
	s.mustBe("active", "enabled")
	n.await("the daemon reports the pod again", func() error {
		if out := s.try("podstead", "get", "pods"); !strings.Contains(out, "Running") {
			return errors.New(out)
		}
		return nil
	})
	n.mustStillRun("p", p)

	s.run("sh", "-c", "rm /etc/pods/p.yaml; mkdir -p /var/lib/podstead/volumes/default/data; echo kept > /var/lib/podstead/volumes/default/data/file")
	n.awaitGone("p")
	n.await("nothing of the pod is left", func() error {
		if out := s.try("sh", "-c", "ls -A /var/lib/podstead/pods"); out != "" {
			return errors.New(out)
		}
		return nil
	})
	if out := s.try("dpkg", "-P", "podstead"); !strings.Contains(out, "/var/lib/podstead/volumes has data") {
		t.Errorf("purge: %s", out)
	}
	left := s.try("sh", "-c", "find /etc /usr /var /run -xdev \\( -name '*podstead*' -o -path /etc/pods \\) -not -path '/run/log/*' -not -path '/var/log/*' -not -path '/var/lib/dpkg/*' | sort; find /var/lib/podstead -type f")
	if want := "/var/lib/podstead\n/var/lib/podstead/volumes/default/data/file"; left != want {
		t.Errorf("the purge left:\n%s\nwant:\n%s", left, want)
	}
}

// mustBe waits until the unit has both states.
func (s *machine) mustBe(active, enabled string) {
	s.t.Helper()
	await(s.t, "the unit is "+active, func() error {
		if a := s.try("systemctl", "is-active", "podstead"); a != active {
			return errors.New(a)
		}
		return nil
	})
	if e := s.try("systemctl", "is-enabled", "podstead"); e != enabled {
		s.t.Errorf("the unit is %s, want %s", e, enabled)
	}
}

// buildPackages builds a release for this machine, checks the paths in the rpm, and returns the deb.
func buildPackages(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dist")
	nfpm := filepath.Join(testbed.Cache(), "nfpm-"+testbed.Version("NFPM_VERSION"), "nfpm")
	cmd := exec.CommandContext(t.Context(), "go", "run", "./build/release", "-version", "v0.0.1", "-commit", "0123456789", "-date", "1790000000", "-nfpm", nfpm, "-out", out, "-platforms", runtime.GOARCH)
	cmd.Dir = testbed.SourceRoot()
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	rpms, _ := filepath.Glob(filepath.Join(out, "podstead-0.0.1-1.*.rpm"))
	debs, _ := filepath.Glob(filepath.Join(out, "podstead_0.0.1-1_*.deb"))
	if len(rpms) != 1 || len(debs) != 1 {
		t.Fatalf("packages: %v, %v", rpms, debs)
	}
	list, err := exec.CommandContext(t.Context(), "rpm", "-qlp", rpms[0]).CombinedOutput()
	if err != nil {
		t.Fatalf("rpm -qlp: %v\n%s", err, list)
	}
	for _, path := range []string{"/usr/bin/podstead", "/usr/lib/systemd/system/podstead.service", "/usr/lib/systemd/system-preset/50-podstead.preset", "/etc/pods", "/etc/podstead/config.yaml", "/usr/share/man/man1/podstead.1.gz"} {
		if !strings.Contains("\n"+string(list), "\n"+path+"\n") {
			t.Errorf("the rpm has no %s", path)
		}
	}
	return debs[0]
}

// lintian fails the test for each error that Debian's checker finds in a package.
func lintian(t *testing.T, deb string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "lintian", "--allow-root", "--fail-on", "error", deb).CombinedOutput(); err != nil {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}

// raiseVersion returns a copy of a deb with another version.
func raiseVersion(t *testing.T, deb, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "deb")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "dpkg-deb", args...).CombinedOutput(); err != nil {
			t.Fatalf("dpkg-deb %v: %v\n%s", args, err, out)
		}
	}
	run("-R", deb, dir)
	control := filepath.Join(dir, "DEBIAN", "control")
	data, err := os.ReadFile(control)
	if err != nil {
		t.Fatal(err)
	}
	raised := strings.Replace(string(data), "Version: 0.0.1-1\n", fmt.Sprintf("Version: %s\n", version), 1)
	if raised == string(data) {
		t.Fatalf("no version in:\n%s", data)
	}
	if err := os.WriteFile(control, []byte(raised), 0o644); err != nil {
		t.Fatal(err)
	}
	raisedDeb := filepath.Join(t.TempDir(), "second.deb")
	run("-Zgzip", "-z1", "-b", dir, raisedDeb)
	return raisedDeb
}
