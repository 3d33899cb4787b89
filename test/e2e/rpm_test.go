package e2e

import (
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The rpm under a real systemd, with the files and scripts of the package run by rpm: it is
// installed, verified, upgraded over a running pod, downgraded and erased. The system is Debian,
// so neither dnf nor the names of the runtime's packages are tested.
func TestRPM(t *testing.T) {
	t.Parallel()
	host := hostPlatform(t)
	s := packageMachine(t)
	copyRPM(t, s.root)
	copyFile(t, host.rpmFile(t, releaseDir(t)), filepath.Join(s.root, "root/first.rpm"))
	copyFile(t, host.rpmFile(t, nextReleaseDir(t)), filepath.Join(s.root, "root/second.rpm"))
	s.startInit()
	s.awaitContainerd()
	// Nothing else is installed by rpm, not even the shell of the scripts.
	rpm := func(args ...string) []string {
		return append([]string{"rpm", "--dbpath", "/var/lib/rpm", "--nodeps"}, args...)
	}
	install := func(args ...string) { t.Helper(); s.run(rpm(append([]string{"--force-debian"}, args...)...)...) }

	install("-i", "/root/first.rpm")
	s.mustBe("inactive", "enabled")
	if out := s.try(rpm("-V", "podstead")...); out != "" {
		t.Errorf("rpm -V: %s", out)
	}
	s.run("systemctl", "start", "podstead")
	s.mustBe("active", "enabled")
	s.writeHostPod()
	n := s.node()
	p := n.awaitRunning("p")
	s.run("sh", "-c", "echo '# changed' >> /etc/podstead/config.yaml")

	daemon := s.mainPid()
	install("-U", "/root/second.rpm")
	s.mustBe("active", "enabled")
	if now := s.mainPid(); now == daemon || now == "0" {
		t.Errorf("after the upgrade the daemon is %s, before it was %s", now, daemon)
	}
	if version := s.try("podstead", "version"); !strings.Contains(version, "v0.0.2") {
		t.Errorf("the version is %s", version)
	}
	if out := s.try(rpm("-V", "podstead")...); !regexp.MustCompile(`^S.5....T. +c /etc/podstead/config.yaml$`).MatchString(out) {
		t.Errorf("rpm -V after a change of the configuration and an upgrade: %q", out)
	}
	s.awaitPodReported()
	n.mustStillRun("p", p)

	// A unit that the administrator disabled stays so.
	s.run("systemctl", "disable", "podstead")
	install("-U", "--oldpackage", "/root/first.rpm")
	s.mustBe("active", "disabled")
	s.awaitPodReported()
	n.mustStillRun("p", p)

	if out := s.try(rpm("--force-debian", "-e", "podstead")...); !strings.Contains(out, "the pods keep running") || !strings.Contains(out, "/var/lib/podstead stays") {
		t.Errorf("rpm -e: %s", out)
	}
	if state := s.try("systemctl", "is-active", "podstead"); state == "active" {
		t.Error("the daemon is active after the package was erased")
	}
	n.mustStillRun("p", p)
	left := s.try("sh", "-c", "find /etc /usr -xdev \\( -name '*podstead*' -o -path '*/podstead/*' -o -path '/etc/pods*' \\) | sort")
	if want := "/etc/pods\n/etc/pods/p.yaml\n/etc/podstead\n/etc/podstead/config.yaml.rpmsave"; left != want {
		t.Errorf("left after rpm -e:\n%s\nwant:\n%s", left, want)
	}

	install("-i", "/root/second.rpm")
	s.run("systemctl", "start", "podstead")
	s.mustBe("active", "enabled")
	s.awaitPodReported()
	n.mustStillRun("p", p)
	s.run("rm", "/etc/pods/p.yaml")
	n.awaitGone("p")
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
