package machine

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// The daemon is restarted, killed, hung and replaced: each container keeps its process.
func TestDaemonRestarts(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	testDaemonRestarts(m)
}

func testDaemonRestarts(m *Machine) {
	t := m.t
	apply(m, testPod{name: "a", revision: "1"}, testPod{name: "b", revision: "1"})
	awaitReady(m, settle, "a", "b")
	containers := [2]string{mainPid(m, "a"), mainPid(m, "b")}
	daemon := func() string { return strings.TrimSpace(m.Sh("systemctl show -P MainPID podstead")) }
	for _, step := range []struct{ name, command string }{
		{"restart", "systemctl restart podstead"},
		{"kill -9", "kill -9 $(systemctl show -P MainPID podstead)"},
		{"watchdog", "kill -STOP $(systemctl show -P MainPID podstead)"},
		{"upgrade", "cp /usr/local/bin/podstead /root/new && install -m 0755 /root/new /usr/local/bin/podstead && " +
			"systemctl restart podstead"},
		{"containerd", "systemctl restart containerd && systemctl restart podstead"},
		{"daemon-reload", "systemctl daemon-reload && systemctl restart podstead"},
	} {
		before := daemon()
		if _, err := m.Run(context.Background(), "sh", "-c", step.command); err != nil {
			t.Fatal(err)
		}
		m.Await("another daemon is active after "+step.name, settle, func() error {
			if now := daemon(); now == before || now == "0" {
				return fmt.Errorf("the main process is %s, was %s", now, before)
			}
			_, err := m.Try("systemctl is-active podstead")
			return err
		})
		awaitReady(m, settle, "a", "b")
		if now := [2]string{mainPid(m, "a"), mainPid(m, "b")}; now != containers {
			t.Fatalf("the main processes are %s after %s, were %s", now, step.name, containers)
		}
	}
}

// denyProfile is an AppArmor profile that allows everything but writing to /denied.
const denyProfile = `profile machine-deny flags=(attach_disconnected,mediate_deleted) {
  file,
  network,
  capability,
  signal,
  unix,
  deny /denied w,
}
`

// denySeccomp is a seccomp profile that denies mkdir.
const denySeccomp = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}`

// Profiles of AppArmor and seccomp are in force in the kernel.
func TestProfiles(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	testProfiles(m)
}

func testProfiles(m *Machine) {
	t := m.t
	if out := m.Sh("cat /sys/module/apparmor/parameters/enabled"); out != "Y" {
		t.Fatalf("AppArmor is %s", out)
	}
	m.Write("/etc/apparmor.d/machine-deny", denyProfile)
	m.Sh("apparmor_parser -r /etc/apparmor.d/machine-deny")
	m.Write("/var/lib/podstead/seccomp/deny.json", denySeccomp)
	profile := func(fields string) string { return ", securityContext: {" + fields + "}" }
	apply(m,
		testPod{name: "plain", revision: "1"},
		testPod{name: "default", revision: "1",
			container: profile("appArmorProfile: {type: RuntimeDefault}, seccompProfile: {type: RuntimeDefault}")},
		testPod{name: "local", revision: "1", container: profile("appArmorProfile: {type: Localhost, localhostProfile: " +
			"machine-deny}, seccompProfile: {type: Localhost, localhostProfile: deny.json}")},
		testPod{name: "unconfined", revision: "1",
			container: profile("appArmorProfile: {type: Unconfined}, seccompProfile: {type: Unconfined}")},
		testPod{name: "missing", revision: "1",
			container: profile("appArmorProfile: {type: Localhost, localhostProfile: machine-missing}")},
	)
	awaitReady(m, settle, "plain", "default", "local", "unconfined")
	for name, want := range map[string]struct{ apparmor, seccomp string }{
		"plain":      {"cri-containerd.apparmor.d (enforce)", "0"},
		"default":    {"cri-containerd.apparmor.d (enforce)", "2"},
		"local":      {"machine-deny (enforce)", "2"},
		"unconfined": {"unconfined", "0"},
	} {
		pid := mainPid(m, name)
		mustHave(m, "/proc/"+pid+"/attr/current", want.apparmor)
		if got := m.Sh("awk '$1 == \"Seccomp:\" { print $2 }' /proc/" + pid + "/status"); got != want.seccomp {
			t.Errorf("%s: the seccomp mode is %s, want %s", name, got, want.seccomp)
		}
	}
	for _, c := range []struct {
		pod, command string
		allowed      bool
	}{
		{"local", "touch /denied", false},
		{"local", "touch /allowed", true},
		{"local", "mkdir /directory", false},
		{"default", "mkdir /directory && touch /denied", true},
		{"unconfined", "mkdir /directory && touch /denied", true},
	} {
		out, err := m.Try("podstead exec " + c.pod + " -- sh -c '" + c.command + "'")
		if (err == nil) != c.allowed {
			t.Errorf("%s in %s: %s, %v; allowed: %v", c.command, c.pod, out, err, c.allowed)
		}
	}
	// A profile that is not loaded keeps the pod waiting, with its name in the reason.
	m.Await("the missing profile is reported", settle, func() error {
		if out, err := m.Try("podstead describe pod missing"); err != nil || !strings.Contains(out, "machine-missing") {
			return fmt.Errorf("%s, %v", out, err)
		}
		return nil
	})
	if got, err := instances(m); err != nil || len(got["missing"]) > 0 {
		t.Errorf("a pod runs without its profile: %v, %v", got, err)
	}
	m.Write("/etc/apparmor.d/machine-missing", strings.Replace(denyProfile, "machine-deny", "machine-missing", 1))
	m.Sh("apparmor_parser -r /etc/apparmor.d/machine-missing")
	awaitReady(m, settle, "missing")
	mustHave(m, "/proc/"+mainPid(m, "missing")+"/attr/current", "machine-missing (enforce)")

	// A container whose profile denies signals cannot be stopped: the reason names the rule, and
	// the next attempt after it was added stops it.
	mute := strings.NewReplacer("machine-deny", "machine-mute", "  signal,\n", "").Replace(denyProfile)
	m.Write("/etc/apparmor.d/machine-mute", mute)
	m.Sh("apparmor_parser -r /etc/apparmor.d/machine-mute")
	apply(m, testPod{name: "mute", revision: "1",
		container: profile("appArmorProfile: {type: Localhost, localhostProfile: machine-mute}")})
	awaitReady(m, settle, "mute")
	m.Sh("rm /etc/pods/mute.yaml")
	m.Await("the reason names the rule", settle, func() error {
		if out, err := m.Try("podstead get events"); err != nil ||
			!strings.Contains(out, "signal (receive) peer=unconfined") {
			return fmt.Errorf("%s, %v", out, err)
		}
		return nil
	})
	m.Write("/etc/apparmor.d/machine-mute",
		strings.Replace(mute, "  unix,\n", "  unix,\n  signal (receive) peer=unconfined,\n", 1))
	m.Sh("apparmor_parser -r /etc/apparmor.d/machine-mute")
	awaitInstances(m, map[string]string{"plain": "1", "default": "1", "local": "1", "unconfined": "1", "missing": "1"},
		settle)

	serviceWith(m, "--seccomp-default")
	apply(m, testPod{name: "plain", revision: "2"})
	awaitInstances(m, map[string]string{"plain": "2", "default": "1", "local": "1", "unconfined": "1", "missing": "1"},
		settle)
	if got := m.Sh("awk '$1 == \"Seccomp:\" { print $2 }' /proc/" + mainPid(m, "plain") + "/status"); got != "2" {
		t.Errorf("the seccomp mode with --seccomp-default is %s, want 2", got)
	}
	// All can be stopped.
	m.Sh("rm /etc/pods/*.yaml")
	awaitInstances(m, nil, settle)
}
