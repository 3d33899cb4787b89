package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// preparePackages makes the machine one that has no runtime yet, with an apt repository that has
// what podstead's package recommends, and copies two versions of the package and the images of
// the tests to it.
func preparePackages(m *Machine, first, second string) {
	m.t.Helper()
	m.Await("services have started", settle, func() error {
		_, err := m.Try("systemctl is-active multi-user.target containerd")
		return err
	})
	m.Sh("systemctl stop containerd && dpkg --purge --force-depends containerd runc containernetworking-plugins iptables")
	m.Sh("rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* && mkdir /srv/packages && mount -o ro /dev/vdb " +
		"/srv/packages && echo 'deb [trusted=yes] file:/srv/packages ./' >/etc/apt/sources.list && apt-get update")
	m.CopyIn(first, "/root/podstead_0.0.1-1_amd64.deb", 0o644)
	m.CopyIn(second, "/root/podstead_0.0.2-1_amd64.deb", 0o644)
	copyImages(m)
}

// installPackage installs podstead as docs/install.md reports: the recommended packages come along,
// and the daemon starts on their containerd, although apt configures that last.
func installPackage(m *Machine) {
	m.t.Helper()
	aptInstall(m, "./podstead_0.0.1-1_amd64.deb")
	for _, p := range runtimePackages(m.t) {
		m.Sh("dpkg -s " + p + " | grep -q '^Status: install ok installed'")
	}
	awaitActive(m)
	if out, _ := m.Try("ls -d /var/lib/podstead/containerd /run/podstead/containerd 2>/dev/null; true"); out != "" {
		m.t.Errorf("podstead started a private containerd: %s", out)
	}
	out, _ := m.Try("podstead check --fix") // it fails for what only a person can decide or provide
	t := m.t
	t.Logf("podstead check --fix:\n%s", out)
	for _, f := range check(m, "podstead") {
		if _, needsNetwork := fixes[f.Check]; f.Repair != "" && !needsNetwork {
			t.Errorf("podstead check --fix left %s: %s", f.Check, f.Message)
		}
	}
	fixFindings(m, "podstead")
	m.Sh("podstead images load /root/busybox.tar")
}

func aptInstall(m *Machine, args string) {
	m.t.Helper()
	m.t.Logf("apt install %s:\n%s", args,
		m.Sh("cd /root && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-remove "+args+" 2>&1"))
}

func awaitActive(m *Machine) {
	m.t.Helper()
	m.Await("podstead is active", settle, func() error {
		_, err := m.Try("systemctl is-active podstead && podstead get nodes")
		return err
	})
}

// checkManual checks that the manual pages are found and formatted, and that the first refers to
// that of each command.
func checkManual(m *Machine) {
	m.t.Helper()
	page := m.Sh("MANWIDTH=80 man podstead 2>&1 | col -bx")
	for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"} {
		if !strings.Contains("\n"+page+"\n", "\n"+section+"\n") {
			m.t.Errorf("man podstead has no section %s:\n%s", section, page)
		}
	}
	if out := m.Sh("MANWIDTH=80 man podstead-run 2>&1 | col -bx"); !strings.Contains(out, "--pod-manifest-path") ||
		!strings.Contains(page, "podstead-run(1)") {
		m.t.Errorf("man podstead-run is\n%s\nand podstead(1) is\n%s", out, page)
	}
}

// testUpgrade installs the next version: the daemon is another one, the processes of the page of
// the session and of a pod are the same.
func testUpgrade(m *Machine) {
	t := m.t
	apply(m, testPod{name: "a", revision: "1"})
	awaitReady(m, settle, "a", "web")
	running := func() string { return mainPid(m, "a") + " " + m.Sh(webProcesses) }
	containers := running()
	before := strings.TrimSpace(m.Sh("systemctl show -P MainPID podstead"))
	aptInstall(m, "./podstead_0.0.2-1_amd64.deb")
	awaitActive(m)
	if now := strings.TrimSpace(m.Sh("systemctl show -P MainPID podstead")); now == before ||
		!strings.Contains(m.Sh("podstead version"), "v0.0.2") {
		t.Errorf("after the upgrade the daemon is %s, before it was %s", now, before)
	}
	awaitReady(m, settle, "a", "web")
	if now := running(); now != containers {
		t.Errorf("the processes of the pods are %s after the upgrade, were %s", now, containers)
	}
	m.Sh("rm /etc/pods/*.yaml")
}

// testPurge removes the package as docs/install.md reports, and looks for what is left.
func testPurge(m *Machine) {
	t := m.t
	// Files that a power cut left, and that begin with a dot, are no manifests.
	m.Sh("rm -f /etc/pods/*.yaml /etc/pods/.*.tmp; podstead wait --all --for=delete --timeout 10m")
	m.Await("nothing of the pods is left", settle, func() error {
		if out, err := m.Try("ls -A /var/lib/podstead/pods"); out != "" || err != nil {
			return fmt.Errorf("%s %v", out, err)
		}
		return nil
	})
	t.Logf("apt purge:\n%s", m.Sh("apt-get purge -y podstead 2>&1"))
	left := m.Sh("find / -xdev \\( -iname '*podstead*' -o -path '/etc/pods*' -o -path '/var/log/pods*' -o -path " +
		"'/var/log/containers*' \\) -not -path '/root/*' -not -path '/var/log/*.log' -not -path '/var/log/apt/*' -not " +
		"-path '/sys/*' -not -path '/proc/*' | sort; find /run -iname '*podstead*'; ls -d /sys/fs/cgroup/podstead.slice " +
		"2>/dev/null; true")
	t.Logf("left after the purge:\n%s", left)
	for line := range strings.Lines(left) {
		if !expectedAfterPurge.MatchString(strings.TrimSpace(line)) {
			t.Errorf("the purge left %s", line)
		}
	}
}

// expectedAfterPurge matches what docs/install.md reports that a purge leaves: what `podstead check`
// had a user create with what the CNI plugins store about that network, and until the next boot
// cgroups. The last one is the port of the tests' agent.
var expectedAfterPurge = regexp.MustCompile(
	`^(/etc/(sysctl|modules-load|cni/net)\.d/.*|/var/lib/cni/networks/podstead|` +
		`/sys/fs/cgroup/podstead\.slice|/run/systemd/transient/podstead.*|/run/udev/links/.*podstead\.machine)$`)

// debOf returns the package of a release of that version.
func debOf(t *testing.T, version, arch string) string {
	t.Helper()
	dir, err := testbed.BuildRelease(version, arch)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(files) != 1 {
		t.Fatalf("packages: %v, %v", files, err)
	}
	return files[0]
}

// repositoryDisk returns the arguments that attach the apt repository of test/setup.sh as /dev/vdb.
func repositoryDisk(t *testing.T) []string {
	t.Helper()
	source, disk := testbed.AptRepository(), filepath.Join(t.TempDir(), "packages.ext4")
	if _, err := os.Stat(filepath.Join(source, "Packages")); err != nil {
		t.Fatal(err, "; run: make setup")
	}
	if out, err := exec.CommandContext(t.Context(), "mke2fs", "-q", "-t", "ext4", "-d", source, disk,
		"256M").CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v\n%s", err, out)
	}
	return []string{"-drive", "file=" + disk + ",if=none,id=packages,format=raw,readonly=on", "-device",
		"virtio-blk-pci,drive=packages"}
}
