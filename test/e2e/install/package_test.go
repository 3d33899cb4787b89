package install

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// The Debian package under a real systemd: apt installs it with the runtime that it recommends, and
// a manifest runs, on that runtime; an upgrade, a removal, a purge and another installation leave the containers their
// processes; a purge without pods leaves nothing but data of volumes.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	first, second := hostPlatform(t).debFile(t, releaseDir(t)), hostPlatform(t).debFile(t, nextReleaseDir(t))
	lintian(t, first)
	s := packageMachine(t)
	harness.CopyFile(t, first, filepath.Join(s.Root, "root/first.deb"))
	harness.CopyFile(t, second, filepath.Join(s.Root, "root/second.deb"))
	output(t, "", "cp", "-r", testbed.AptRepository(), filepath.Join(s.Root, "srv/packages"))
	s.WriteFiles(map[string]string{"etc/apt/sources.list": "deb [trusted=yes] file:/srv/packages ./\n"})
	s.StartInit()
	awaitContainerd(s)
	apt := func(args ...string) string {
		t.Helper()
		s.Run("sh", "-c", "DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Options::=--force-confold -y "+
			strings.Join(args, " ")+" >/root/apt.log 2>&1 || { cat /root/apt.log; exit 1; }")
		return s.Try("cat", "/root/apt.log")
	}

	// Their configuration stays, as it is that of the tests.
	s.Run("systemctl", "stop", "containerd")
	s.Run("sh", "-c", "dpkg --remove --force-depends containerd runc containernetworking-plugins iptables")
	apt("update")
	t.Logf("apt install:\n%s", apt("install", "/root/first.deb"))
	mustBe(s, "active", "enabled")
	for _, p := range []string{"containerd", "runc", "containernetworking-plugins", "iptables"} {
		if out := s.Try("dpkg-query", "-W", "-f", "${Status}", p); out != "install ok installed" {
			t.Errorf("%s is %s", p, out)
		}
	}
	mustUseSystemRuntime(s)
	writeHostPod(s)
	n := s.Node()
	p := n.AwaitRunning("p")
	for _, path := range []string{"/usr/share/man/man1/podstead-run.1.gz",
		"/usr/share/bash-completion/completions/podstead", "/etc/podstead/config.yaml"} {
		s.Run("test", "-s", path)
	}

	daemon := s.MainPid()
	apt("install", "/root/second.deb")
	mustBe(s, "active", "enabled")
	if now := s.MainPid(); now == daemon || now == "0" {
		t.Errorf("after the upgrade the daemon is %s, before it was %s", now, daemon)
	}
	n.MustStillRun("p", p)

	if out := s.Try("dpkg", "-r", "podstead"); !strings.Contains(out, "the pods keep running") {
		t.Errorf("removal: %s", out)
	}
	if state := s.Try("systemctl", "is-active", "podstead"); state == "active" {
		t.Error("the daemon is active after the removal")
	}
	n.MustStillRun("p", p)
	if out := s.Try("dpkg", "-P", "podstead"); !strings.Contains(out, "pods still run, so /var/lib/podstead stays") ||
		!strings.Contains(out, "/etc/pods is not empty and stays") {
		t.Errorf("purge with a pod: %s", out)
	}
	n.MustStillRun("p", p)

	s.Run("dpkg", "-i", "/root/second.deb")
	mustBe(s, "active", "enabled")
	awaitPodReported(s)
	n.MustStillRun("p", p)

	s.Run("sh", "-c", "rm /etc/pods/p.yaml; mkdir -p /var/lib/podstead/volumes/empty/claim")
	storeDatabase(s)
	before := stored(s)
	n.AwaitGone("p")
	awaitNoPods(s)
	// What the daemon leaves if it is stopped right after the last pod's end.
	s.Run("mkdir", "-p", "/var/lib/podstead/pods/ended/containers")
	if out := s.Try("dpkg", "-P", "podstead"); !strings.Contains(out, "/var/lib/podstead/volumes has data") {
		t.Errorf("purge: %s", out)
	}
	left := s.Try("sh", "-c", "find /etc /usr /var /run -xdev \\( -name '*podstead*' -o -path /etc/pods -o -path "+
		"'/var/log/pods*' -o -path '/var/log/containers*' \\) -not -path '/var/lib/dpkg/*' | sort; ls -A /var/lib/podstead "+
		"/var/lib/podstead/volumes")
	if want := "/var/lib/podstead\n/var/lib/podstead:\nvolumes\n\n/var/lib/podstead/volumes:\ndefault"; left != want {
		t.Errorf("the purge left:\n%s\nwant:\n%s", left, want)
	}
	if after := stored(s); after != before {
		t.Errorf("after the purge the claims have:\n%s\nbefore it:\n%s", after, before)
	}
}

// storeDatabase makes claims as databases leave them: with directories that are empty and that they need, and
// with owners, modes, links and a named pipe.
func storeDatabase(s *harness.Machine) {
	s.Run("sh", "-c",
		`set -e; mkdir -p /var/lib/podstead/volumes/default/postgres /var/lib/podstead/volumes/default/nothing/here
cd /var/lib/podstead/volumes/default/postgres
mkdir -m 0700 -p base/1 global pg_commit_ts pg_dynshmem pg_logical/mappings pg_logical/snapshots pg_multixact/members pg_multixact/offsets
mkdir -m 0700 pg_notify pg_replslot pg_serial pg_snapshots pg_stat pg_stat_tmp pg_subtrans pg_tblspc pg_twophase pg_wal pg_wal/archive_status pg_xact
echo 15 > PG_VERSION; echo row > base/1/1259; echo control > global/pg_control; ln -s ../base pg_tblspc/16384; chmod 0600 global/pg_control
ln base/1/1259 base/1/1259_link; mkfifo pg_stat_tmp/pipe; chown -R 999:999 .; mkdir lost+found .hidden`)
}

// stored returns what the claims have: type, mode, owner, links and the path of each file, and the contents.
func stored(s *harness.Machine) string {
	return s.Try("sh", "-c",
		`cd /var/lib/podstead/volumes/default && find . -printf '%y %m %U %G %n %p %l\n' | sort && find . -type f | sort | xargs sha256sum`)
}

// The Debian package is installed before the runtime is configured, as apt does in one run: the
// daemon waits for it, and does not choose a private containerd in the meantime. Without any
// runtime the installation succeeds, the journal reports what is missing, and the daemon finds the
// runtime that is installed later.
func TestDebianPackageBeforeRuntime(t *testing.T) {
	t.Parallel()
	s := packageMachine(t)
	harness.CopyFile(t, hostPlatform(t).debFile(t, releaseDir(t)), filepath.Join(s.Root, "root/podstead.deb"))
	s.StartInit()
	awaitContainerd(s)
	s.Run("systemctl", "stop", "containerd")

	// As dpkg leaves a package that is unpacked and not yet configured.
	s.Run("sed", "-i", `/^Package: containerd$/,/^$/s/^Status: install ok installed$/Status: install ok unpacked/`,
		"/var/lib/dpkg/status")
	s.Run("dpkg", "-i", "/root/podstead.deb")
	if state := s.Try("systemctl", "is-active", "podstead-first-start"); state != "active" {
		t.Errorf("what waits for the runtime is %s", state)
	}
	if state := s.Try("systemctl", "is-active", "podstead"); state != "inactive" {
		t.Errorf("podstead is %s although the runtime is not configured", state)
	}
	s.Run("dpkg", "--configure", "containerd")
	mustBe(s, "active", "enabled")
	harness.Await(t, "nothing waits for the runtime any more", func() error {
		if state := s.Try("systemctl", "is-active", "podstead-first-start"); state != "inactive" {
			return errors.New(state)
		}
		return nil
	})
	writeHostPod(s)
	n := s.Node()
	n.AwaitRunning("p")
	mustUseSystemRuntime(s)
	s.Run("rm", "/etc/pods/p.yaml")
	n.AwaitGone("p")
	awaitNoPods(s)

	s.Run("dpkg", "-P", "podstead")
	s.Run("systemctl", "stop", "containerd")
	s.Run("mv", "/usr/bin/containerd", "/lib/systemd/system/containerd.service", "/root/")
	if out := s.Try("dpkg", "-i", "/root/podstead.deb"); !strings.Contains(out,
		"the daemon does not run yet; podstead check") || strings.Contains(out, "deb-systemd-invoke") {
		t.Errorf("installation without a runtime: %s", out)
	}
	harness.Await(t, "the journal names what is missing", func() error {
		if log := s.Try("journalctl", "-u", "podstead", "-o", "cat", "--no-pager"); !strings.Contains(log,
			"no containerd is installed") {
			return errors.New(log)
		}
		return nil
	})
	// systemd starts podstead every second. It waits for a runtime whose service is there.
	s.Run("mv", "/root/containerd.service", "/lib/systemd/system/")
	s.Run("mv", "/root/containerd", "/usr/bin/")
	harness.Await(t, "podstead waits for the runtime that is being installed", func() error {
		if log := s.Try("journalctl", "-u", "podstead", "-o", "cat", "--no-pager"); !strings.Contains(log,
			"Waiting for a container runtime that was installed a moment ago") {
			return errors.New(log)
		}
		return nil
	})
	// It waits for a minute from the last change of the inode, in which a loaded host may not start containerd.
	for _, command := range []string{"daemon-reload", "start containerd"} {
		s.Run("sh", "-c", "chmod 644 /lib/systemd/system/containerd.service && systemctl "+command)
	}
	mustBe(s, "active", "enabled")
	writeHostPod(s)
	n.AwaitRunning("p")
	mustUseSystemRuntime(s)
}

// awaitNoPods waits until the daemon has removed what it stored of its pods.
func awaitNoPods(s *harness.Machine) {
	s.T.Helper()
	harness.Await(s.T, "nothing of the pods is left", func() error {
		if out := s.Try("sh", "-c", "ls -A /var/lib/podstead/pods"); out != "" {
			return errors.New(out)
		}
		return nil
	})
}

// packageMachine returns a machine that is off, with a runtime that is configured.
func packageMachine(t *testing.T) *harness.Machine {
	t.Helper()
	s := harness.UnpackMachine(t)
	s.WriteFiles(map[string]string{
		"etc/containerd/certs.d/_default/hosts.toml": testbed.HostsTOML(s.Registry),
		"etc/containerd/config.toml":                 testbed.SystemContainerd16,
		"etc/cni/net.d/10-bed.conflist":              testbed.SystemCNI,
	})
	t.Cleanup(s.CutPower)
	return s
}

// mustUseSystemRuntime fails the test if podstead started a private containerd.
func mustUseSystemRuntime(s *harness.Machine) {
	s.T.Helper()
	if out := s.Try("sh", "-c", "ls -d /run/podstead/containerd /var/lib/podstead/containerd 2>/dev/null"); out != "" {
		s.T.Errorf("podstead started a private containerd: %s", out)
	}
}

func awaitContainerd(s *harness.Machine) {
	s.T.Helper()
	harness.Await(s.T, "containerd is active", func() error {
		if state := s.Try("systemctl", "is-active", "containerd"); state != "active" {
			return errors.New(state)
		}
		return nil
	})
}

// writeHostPod writes the manifest of a pod p in the host's network.
func writeHostPod(s *harness.Machine) {
	s.T.Helper()
	s.Run("sh", "-c", "cat > /etc/pods/p.yaml <<'E'\n"+
		strings.Replace(harness.SleepPod("p", "one"), "spec:\n", "spec:\n  hostNetwork: true\n", 1)+"\nE")
}

// awaitPodReported waits until the daemon reports its only pod as running.
func awaitPodReported(s *harness.Machine) {
	s.T.Helper()
	harness.Await(s.T, "the daemon reports the pod", func() error {
		if out := s.Try("podstead", "get", "pods"); !strings.Contains(out, "Running") {
			return errors.New(out)
		}
		return nil
	})
}

// mustBe waits until the unit has both states.
func mustBe(s *harness.Machine, active, enabled string) {
	s.T.Helper()
	harness.Await(s.T, "the unit is "+active, func() error {
		if a := s.Try("systemctl", "is-active", "podstead"); a != active {
			return errors.New(a)
		}
		return nil
	})
	if e := s.Try("systemctl", "is-enabled", "podstead"); e != enabled {
		s.T.Errorf("the unit is %s, want %s", e, enabled)
	}
}

// lintian fails the test for each error that Debian's checker finds in a package.
func lintian(t *testing.T, deb string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "lintian", "--allow-root", "--fail-on", "error",
		deb).CombinedOutput(); err != nil {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}
