package install

import (
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// The rpm under a real systemd, with the files and scripts of the package run by rpm: it is
// installed, verified, upgraded over a running pod, downgraded and erased. The system is Debian,
// so neither dnf nor the names of the runtime's packages are tested.
func TestRPM(t *testing.T) {
	t.Parallel()
	host := hostPlatform(t)
	s := packageMachine(t)
	copyRPM(t, s.Root)
	harness.CopyFile(t, host.rpmFile(t, releaseDir(t)), filepath.Join(s.Root, "root/first.rpm"))
	harness.CopyFile(t, host.rpmFile(t, nextReleaseDir(t)), filepath.Join(s.Root, "root/second.rpm"))
	s.StartInit()
	awaitContainerd(s)
	// Nothing else is installed by rpm, not even the shell of the scripts.
	rpm := func(args ...string) []string {
		return append([]string{"rpm", "--dbpath", "/var/lib/rpm", "--nodeps"}, args...)
	}
	install := func(args ...string) { t.Helper(); s.Run(rpm(append([]string{"--force-debian"}, args...)...)...) }

	install("-i", "/root/first.rpm")
	mustBe(s, "inactive", "enabled")
	if out := s.Try(rpm("-V", "podstead")...); out != "" {
		t.Errorf("rpm -V: %s", out)
	}
	s.Run("systemctl", "start", "podstead")
	mustBe(s, "active", "enabled")
	writeHostPod(s)
	n := s.Node()
	p := n.AwaitRunning("p")
	s.Run("sh", "-c", "echo '# changed' >> /etc/podstead/config.yaml")

	daemon := s.MainPid()
	install("-U", "/root/second.rpm")
	mustBe(s, "active", "enabled")
	if now := s.MainPid(); now == daemon || now == "0" {
		t.Errorf("after the upgrade the daemon is %s, before it was %s", now, daemon)
	}
	if version := s.Try("podstead", "version"); !strings.Contains(version, "v0.0.2") {
		t.Errorf("the version is %s", version)
	}
	if out := s.Try(rpm("-V", "podstead")...); !regexp.MustCompile(`^S.5....T. +c /etc/podstead/config.yaml$`).MatchString(
		out) {
		t.Errorf("rpm -V after a change of the configuration and an upgrade: %q", out)
	}
	awaitPodReported(s)
	n.MustStillRun("p", p)

	// A unit that the administrator disabled stays so.
	s.Run("systemctl", "disable", "podstead")
	install("-U", "--oldpackage", "/root/first.rpm")
	mustBe(s, "active", "disabled")
	awaitPodReported(s)
	n.MustStillRun("p", p)

	storeDatabase(s)
	before := stored(s)
	if out := s.Try(rpm("--force-debian", "-e", "podstead")...); !strings.Contains(out, "the pods keep running") ||
		!strings.Contains(out, "/var/lib/podstead stays") {
		t.Errorf("rpm -e: %s", out)
	}
	if state := s.Try("systemctl", "is-active", "podstead"); state == "active" {
		t.Error("the daemon is active after the package was erased")
	}
	n.MustStillRun("p", p)
	left := s.Try("sh", "-c", "find /etc /usr -xdev \\( -name '*podstead*' -o -path '*/podstead/*' -o -path "+
		"'/etc/pods*' \\) | sort")
	if want := "/etc/pods\n/etc/pods/p.yaml\n/etc/podstead\n/etc/podstead/config.yaml.rpmsave"; left != want {
		t.Errorf("left after rpm -e:\n%s\nwant:\n%s", left, want)
	}
	if after := stored(s); after != before {
		t.Errorf("after rpm -e the claims have:\n%s\nbefore it:\n%s", after, before)
	}

	install("-i", "/root/second.rpm")
	s.Run("systemctl", "start", "podstead")
	mustBe(s, "active", "enabled")
	awaitPodReported(s)
	n.MustStillRun("p", p)
	s.Run("rm", "/etc/pods/p.yaml")
	n.AwaitGone("p")
}

// copyRPM copies this machine's rpm, its configuration and the libraries that a root directory
// lacks.
func copyRPM(t *testing.T, root string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ldd", "/usr/bin/rpm").Output()
	if err != nil {
		t.Fatal(errors.Join(err, errors.New("run: make setup")))
	}
	for _, lib := range regexp.MustCompile(`=> (/\S+)`).FindAllStringSubmatch(string(out), -1) {
		output(t, "", "cp", "--dereference", "--no-clobber", lib[1], filepath.Join(root, lib[1]))
	}
	output(t, "", "cp", "-r", "/usr/lib/rpm", filepath.Join(root, "usr/lib"))
	output(t, "", "cp", "/usr/bin/rpm", filepath.Join(root, "usr/bin"))
}
