package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// finding is one finding in the JSON output of podstead check.
type finding struct{ Check, Level, Message, Fix string }

// check runs podstead check and returns its findings by the name of the check.
func (n *node) check(status int, args ...string) map[string]finding {
	n.t.Helper()
	var report struct {
		Findings []finding
		Failed   int
	}
	// A check does not wait for a runtime that is slow.
	n.await(fmt.Sprintf("podstead check %q exits with %d", args, status), func() error {
		out, errs, got := n.podstead(append([]string{"check", "-o", "json"}, args...)...)
		report.Findings, report.Failed = nil, 0
		if err := json.Unmarshal([]byte(out), &report); err != nil || got != status || (report.Failed > 0) != (status == 1) {
			return fmt.Errorf("exit code %d (%v): %s%s", got, err, out, errs)
		}
		return nil
	})
	found := map[string]finding{}
	for _, f := range report.Findings {
		// Of several findings of a check, keep the first of the worst.
		worse := []string{"ok", "warn", "fail"}
		if before, ok := found[f.Check]; !ok || slices.Index(worse, f.Level) > slices.Index(worse, before.Level) {
			found[f.Check] = f
		}
	}
	return found
}

// healthyFailures is how many failures podstead check finds on a host on which pods run: one for
// each cgroup controller that is not mounted and without which limits cannot be enforced.
func healthyFailures(t *testing.T) (count int) {
	unmounted := unmountedControllers(t)
	for _, name := range []string{"memory", "cpu"} {
		if slices.Contains(unmounted, name) {
			count++
		}
	}
	return count
}

// healthyStatus is the exit status of podstead check on such a host.
func healthyStatus(t *testing.T) int { return min(healthyFailures(t), 1) }

// check reports no failure on a host on which pods run, with and without a daemon. It reports
// real problems.
func TestCheckTheHost(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		address := freeAddress()
		_, port, _ := net.SplitHostPort(address)
		n.Args = []string{"--healthz-port", port}
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		n.awaitReady("p")
		expect := func(found map[string]finding, check, level string, words ...string) {
			t.Helper()
			f := found[check]
			for _, w := range append(words, "") {
				if f.Level != level || !strings.Contains(f.Message, w) {
					t.Errorf("%s: %+v, want %s with %q", check, f, level, w)
				}
			}
			if f.Level == "fail" && f.Fix == "" {
				t.Errorf("%s: the finding has no fix: %+v", check, f)
			}
		}
		// It uses the running daemon's flags.
		unmounted, healthy, cgroups := unmountedControllers(t), healthyStatus(t), "ok"
		switch {
		case healthy != 0:
			cgroups = "fail"
		case len(unmounted) > 0:
			cgroups = "warn"
		}
		found := n.check(healthy, "--api-socket", n.Socket())
		expect(found, "daemon", "ok", "pid "+strconv.Itoa(n.Pid()))
		expect(found, "ports", "ok", "127.0.0.1:"+port+" is used by podstead")
		expect(found, "manifests", "ok", n.Manifests)
		expect(found, "runtime", "ok", "containerd ", strings.TrimPrefix(n.Endpoint, "unix://"))
		for _, check := range []string{"cni", "iptables", "overlay", "cgroup-driver", "kubelet"} {
			expect(found, check, "ok")
		}
		expect(found, "cgroups", cgroups)
		text, _, _ := n.podstead("check", "--api-socket", n.Socket())
		for _, name := range unmounted {
			if !regexp.MustCompile("active but not mounted: .*\\b" + name + "\\b|controller .*\\b" + name + "\\b.* is active but not mounted").MatchString(text) {
				t.Errorf("%s is not mounted, which the check does not say:\n%s", name, text)
			}
		}
		// Disk usage depends on the machine; the unit tests check the bounds.
		expect(found, "disk", found["disk"].Level, " of the disk of ")
		if found["disk"].Level == "fail" {
			t.Errorf("pods run, and %+v", found["disk"])
		}
		if image, reported := found["pause-image"]; reported && image.Level != "ok" {
			t.Errorf("a pod runs, and %+v", image)
		}

		n.Kill()
		flags := n.Flags()[1:]
		found = n.check(healthy, flags...)
		expect(found, "daemon", "ok", "podstead is not running")
		expect(found, "ports", "ok", "is free")
		taken, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		if err := os.Chmod(n.Manifests, 0o777); err != nil {
			t.Fatal(err)
		}
		found = n.check(1, append(flags, "--container-runtime-endpoint", "unix://"+n.Dir()+"/none.sock")...)
		expect(found, "ports", "fail", "127.0.0.1:"+port+" is in use by", "(pid "+strconv.Itoa(os.Getpid())+")")
		expect(found, "manifests", "fail", "world-writable")
		expect(found, "runtime", "fail", "socket "+n.Dir()+"/none.sock does not exist")
		out, _, _ := n.podstead(append([]string{"check"}, flags...)...)
		if !strings.Contains(out, "fix: chmod o-w "+n.Manifests) || !strings.Contains(out, fmt.Sprintf("%d failed", 2+healthyFailures(t))) {
			t.Errorf("text output:\n%s", out)
		}
		if _, errs, status := n.podstead("check", "--max-pods", "-3"); status != 2 || !strings.Contains(errs, "--max-pods") {
			t.Errorf("a wrong flag exited with %d: %s", status, errs)
		}
		if err := os.Chmod(n.Manifests, 0o755); err != nil {
			t.Fatal(err)
		}
	})
}
