package machine

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// lifeCuts is the number of power cuts of TestLife.
const lifeCuts = 3

// lifeBudget is the time after which TestLife cuts the power no more, so that `make test` stays
// bounded on a host that does much other work. An idle host needs half of it for everything.
const lifeBudget = 15 * time.Minute

// A machine from its installation to the removal of podstead: apt installs the package and the
// runtime on a plain Debian without a network, `podstead check` names what is missing and how to
// fix it, a manifest in /etc/pods runs, and the session of README works. An upgrade keeps each
// process. The machine reboots, which ends the pods in order, its power is cut, and a purge leaves
// nothing but what it reports. The part of these tests that `make test` runs.
func TestLife(t *testing.T) {
	first, second := debOf(t, "v0.0.1", AMD64), debOf(t, "v0.0.2", AMD64)
	m := New(t, Options{QEMUArgs: repositoryDisk(t)})
	began, last, used := time.Now(), time.Now(), time.Duration(0)
	step := func(what string) {
		load, _ := os.ReadFile("/proc/loadavg")
		cpu := m.CPUTime()
		t.Logf("%s: %.0f s, %.0f s of CPU; %.0f s in total; the host's load is %s", what,
			time.Since(last).Seconds(), (cpu - used).Seconds(), time.Since(began).Seconds(), strings.TrimSpace(string(load)))
		last, used = time.Now(), cpu
	}
	m.Start()
	step("boot")
	preparePackages(m, first, second)
	step("packages of the runtime purged")
	installPackage(m)
	step("apt install, check")
	checkManual(m)
	testSession(m)
	step("session")
	testUpgrade(m)
	step("upgrade")
	// More time than the default for pods that end, on a host that does other work as well.
	m.Sh("sed -i 's/^#shutdownGracePeriod: .*/shutdownGracePeriod: 10m/' /etc/podstead/config.yaml && systemctl restart " +
		"podstead")
	testShutdown(m, true)
	m.Sh("rm /etc/pods/*.yaml")
	step("reboot")
	testPowerCuts(m, quickChurn, lifeCuts, began.Add(lifeBudget))
	step("power cuts")
	m.Sh("rm /etc/pods/*.yaml")
	testImagePowerCuts(m, lifeCuts, began.Add(lifeBudget))
	step("power cuts after and amid image loads and pulls")
	testPurge(m)
	step("purge")
}

// webProcesses prints the processes of examples/web.yaml.
const webProcesses = "pgrep -f 'http[d] -f -p 80'"

// testSession does what the session at the top of README shows.
func testSession(m *Machine) {
	t := m.t
	m.Sh("cp /usr/share/doc/podstead/examples/web.yaml /etc/pods/")
	page := func(want string) {
		t.Helper()
		m.Await("the page is "+want, settle, func() error {
			if got, err := m.Try("curl -sS -m 10 localhost:8080"); got != want {
				return fmt.Errorf("%q, %v", got, err)
			}
			return nil
		})
	}
	page("Hello from podstead")
	m.Sh("sed -i 's/Hello/Hi/' /etc/pods/web.yaml")
	page("Hi from podstead")
	before := m.Sh(webProcesses)
	m.Sh("echo '  bogus: [' >> /etc/pods/web.yaml")
	m.Await("get pods shows the fault", settle, func() error {
		if out, _ := m.Try("podstead get pods"); !regexp.MustCompile(
			`fault: /etc/pods/web.yaml:\d+: is not valid YAML`).MatchString(out) {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if after := m.Sh(webProcesses); after != before {
		t.Errorf("the processes of the page were %s and are %s after a faulty edit", before, after)
	}
	// The limit of the manifest, in the kernel, below the slice of systemd.
	cgroup := m.Sh("cut -d: -f3 /proc/$(pgrep -f 'http[d] -f -p 80' | head -1)/cgroup")
	if !strings.HasPrefix(cgroup, "/podstead.slice/") {
		t.Errorf("the container is in the cgroup %s, want one below /podstead.slice", cgroup)
	}
	if limit := m.Sh("cat /sys/fs/cgroup" + cgroup + "/memory.max"); limit != "33554432" {
		t.Errorf("memory.max is %s, want 32 MiB", limit)
	}
}
