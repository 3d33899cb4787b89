package e2e

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// The Debian package under a real systemd: apt installs it with the runtime that it recommends, and
// a manifest runs, on that runtime; an upgrade, a removal, a purge and another installation leave the containers their processes; a purge
// without pods leaves nothing but data of volumes.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	first, second := hostPlatform(t).debFile(t, releaseDir(t)), hostPlatform(t).debFile(t, nextReleaseDir(t))
	lintian(t, first)
	s := packageMachine(t)
	copyFile(t, first, filepath.Join(s.root, "root/first.deb"))
	copyFile(t, second, filepath.Join(s.root, "root/second.deb"))
	output(t, "", "cp", "-r", testbed.AptRepository(), filepath.Join(s.root, "srv/packages"))
	s.writeFiles(map[string]string{"etc/apt/sources.list": "deb [trusted=yes] file:/srv/packages ./\n"})
	s.startInit()
	s.awaitContainerd()
	apt := func(args ...string) string {
		t.Helper()
		s.run("sh", "-c", "DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Options::=--force-confold -y "+strings.Join(args, " ")+" >/root/apt.log 2>&1 || { cat /root/apt.log; exit 1; }")
		return s.try("cat", "/root/apt.log")
	}

	// Their configuration stays, as it is that of the tests.
	s.run("systemctl", "stop", "containerd")
	s.run("sh", "-c", "dpkg --remove --force-depends containerd runc containernetworking-plugins iptables")
	apt("update")
	t.Logf("apt install:\n%s", apt("install", "/root/first.deb"))
	s.mustBe("active", "enabled")
	for _, p := range []string{"containerd", "runc", "containernetworking-plugins", "iptables"} {
		if out := s.try("dpkg-query", "-W", "-f", "${Status}", p); out != "install ok installed" {
			t.Errorf("%s is %s", p, out)
		}
	}
	s.mustUseSystemRuntime()
	s.writeHostPod()
	n := s.node()
	p := n.awaitRunning("p")
	for _, path := range []string{"/usr/share/man/man1/podstead-run.1.gz", "/usr/share/bash-completion/completions/podstead", "/etc/podstead/config.yaml"} {
		s.run("test", "-s", path)
	}

	daemon := s.mainPid()
	apt("install", "/root/second.deb")
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
	s.awaitPodReported()
	n.mustStillRun("p", p)

	s.run("sh", "-c", "rm /etc/pods/p.yaml; mkdir -p /var/lib/podstead/volumes/default/data; echo kept > /var/lib/podstead/volumes/default/data/file")
	n.awaitGone("p")
	s.awaitNoPods()
	// What the daemon leaves if it is stopped right after the last pod's end.
	s.run("mkdir", "-p", "/var/lib/podstead/pods/ended/containers")
	if out := s.try("dpkg", "-P", "podstead"); !strings.Contains(out, "/var/lib/podstead/volumes has data") {
		t.Errorf("purge: %s", out)
	}
	left := s.try("sh", "-c", "find /etc /usr /var /run -xdev \\( -name '*podstead*' -o -path /etc/pods -o -path '/var/log/pods*' -o -path '/var/log/containers*' \\) -not -path '/var/lib/dpkg/*' | sort; find /var/lib/podstead -type f")
	if want := "/var/lib/podstead\n/var/lib/podstead/volumes/default/data/file"; left != want {
		t.Errorf("the purge left:\n%s\nwant:\n%s", left, want)
	}
}

// The Debian package is installed before the runtime is configured, as apt does in one run: the
// daemon waits for it, and does not choose a private containerd in the meantime. Without any
// runtime the installation succeeds, the journal says what is missing, and the daemon finds the
// runtime that is installed later.
func TestDebianPackageBeforeRuntime(t *testing.T) {
	t.Parallel()
	s := packageMachine(t)
	copyFile(t, hostPlatform(t).debFile(t, releaseDir(t)), filepath.Join(s.root, "root/podstead.deb"))
	s.startInit()
	s.awaitContainerd()
	s.run("systemctl", "stop", "containerd")

	// As dpkg leaves a package that is unpacked and not yet configured.
	s.run("sed", "-i", `/^Package: containerd$/,/^$/s/^Status: install ok installed$/Status: install ok unpacked/`, "/var/lib/dpkg/status")
	s.run("dpkg", "-i", "/root/podstead.deb")
	if state := s.try("systemctl", "is-active", "podstead-first-start"); state != "active" {
		t.Errorf("what waits for the runtime is %s", state)
	}
	if state := s.try("systemctl", "is-active", "podstead"); state != "inactive" {
		t.Errorf("podstead is %s although the runtime is not configured", state)
	}
	s.run("dpkg", "--configure", "containerd")
	s.mustBe("active", "enabled")
	await(t, "nothing waits for the runtime any more", func() error {
		if state := s.try("systemctl", "is-active", "podstead-first-start"); state != "inactive" {
			return errors.New(state)
		}
		return nil
	})
	s.writeHostPod()
	n := s.node()
	n.awaitRunning("p")
	s.mustUseSystemRuntime()
	s.run("rm", "/etc/pods/p.yaml")
	n.awaitGone("p")
	s.awaitNoPods()

	s.run("dpkg", "-P", "podstead")
	s.run("systemctl", "stop", "containerd")
	s.run("mv", "/usr/bin/containerd", "/lib/systemd/system/containerd.service", "/root/")
	if out := s.try("dpkg", "-i", "/root/podstead.deb"); !strings.Contains(out, "the daemon does not run yet; podstead check") || strings.Contains(out, "deb-systemd-invoke") {
		t.Errorf("installation without a runtime: %s", out)
	}
	await(t, "the journal names what is missing", func() error {
		if log := s.try("journalctl", "-u", "podstead", "-o", "cat", "--no-pager"); !strings.Contains(log, "no containerd is installed") {
			return errors.New(log)
		}
		return nil
	})
	// systemd starts podstead every second. It waits for a runtime whose service is there.
	s.run("mv", "/root/containerd.service", "/lib/systemd/system/")
	s.run("mv", "/root/containerd", "/usr/bin/")
	await(t, "podstead waits for the runtime that is being installed", func() error {
		if log := s.try("journalctl", "-u", "podstead", "-o", "cat", "--no-pager"); !strings.Contains(log, "Waiting for a container runtime that was installed a moment ago") {
			return errors.New(log)
		}
		return nil
	})
	// It waits for a minute from the last change of the inode, in which a loaded host may not start containerd.
	for _, command := range []string{"daemon-reload", "start containerd"} {
		s.run("sh", "-c", "chmod 644 /lib/systemd/system/containerd.service && systemctl "+command)
	}
	s.mustBe("active", "enabled")
	s.writeHostPod()
	n.awaitRunning("p")
	s.mustUseSystemRuntime()
}

// awaitNoPods waits until the daemon has removed what it stored of its pods.
func (s *machine) awaitNoPods() {
	s.t.Helper()
	await(s.t, "nothing of the pods is left", func() error {
		if out := s.try("sh", "-c", "ls -A /var/lib/podstead/pods"); out != "" {
			return errors.New(out)
		}
		return nil
	})
}

// packageMachine returns a machine that is off, with a runtime that is configured.
func packageMachine(t *testing.T) *machine {
	t.Helper()
	s := unpackMachine(t)
	s.writeFiles(map[string]string{
		"etc/containerd/certs.d/_default/hosts.toml": testbed.HostsTOML(s.registry),
		"etc/containerd/config.toml":                 testbed.SystemContainerd16,
		"etc/cni/net.d/10-bed.conflist":              testbed.SystemCNI,
	})
	t.Cleanup(s.cutPower)
	return s
}

// mustUseSystemRuntime fails the test if podstead started a private containerd.
func (s *machine) mustUseSystemRuntime() {
	s.t.Helper()
	if out := s.try("sh", "-c", "ls -d /run/podstead/containerd /var/lib/podstead/containerd 2>/dev/null"); out != "" {
		s.t.Errorf("podstead started a private containerd: %s", out)
	}
}

func (s *machine) awaitContainerd() {
	s.t.Helper()
	await(s.t, "containerd is active", func() error {
		if state := s.try("systemctl", "is-active", "containerd"); state != "active" {
			return errors.New(state)
		}
		return nil
	})
}

// writeHostPod writes the manifest of a pod p in the host's network.
func (s *machine) writeHostPod() {
	s.t.Helper()
	s.run("sh", "-c", "cat > /etc/pods/p.yaml <<'E'\n"+strings.Replace(sleepPod("p", "one"), "spec:\n", "spec:\n  hostNetwork: true\n", 1)+"\nE")
}

// awaitPodReported waits until the daemon reports its only pod as running.
func (s *machine) awaitPodReported() {
	s.t.Helper()
	await(s.t, "the daemon reports the pod", func() error {
		if out := s.try("podstead", "get", "pods"); !strings.Contains(out, "Running") {
			return errors.New(out)
		}
		return nil
	})
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

// lintian fails the test for each error that Debian's checker finds in a package.
func lintian(t *testing.T, deb string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "lintian", "--allow-root", "--fail-on", "error", deb).CombinedOutput(); err != nil {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}
