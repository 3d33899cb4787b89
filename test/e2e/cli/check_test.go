package cli

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// check reports no failure on a host on which pods run, with and without a daemon. It reports
// real problems.
func TestCheckTheHost(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		address := harness.FreeAddress()
		_, port, _ := net.SplitHostPort(address)
		n.Args = []string{"--healthz-port", port}
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		n.AwaitReady("p")
		expect := func(found map[string]harness.Finding, check, level string, words ...string) {
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
		unmounted, healthy, cgroups := harness.UnmountedControllers(t), harness.HealthyStatus(t), "ok"
		switch {
		case healthy != 0:
			cgroups = "fail"
		case len(unmounted) > 0:
			cgroups = "warn"
		}
		found := n.Check(healthy, "--api-socket", n.Socket())
		expect(found, "daemon", "ok", "pid "+strconv.Itoa(n.Pid()))
		expect(found, "ports", "ok", "127.0.0.1:"+port+" is used by podstead")
		expect(found, "manifests", "ok", n.Manifests)
		expect(found, "runtime", "ok", "containerd ", strings.TrimPrefix(n.Endpoint, "unix://"))
		for _, check := range []string{"cni", "iptables", "overlay", "cgroup-driver", "kubelet"} {
			expect(found, check, "ok")
		}
		expect(found, "cgroups", cgroups)
		text, _, _ := n.Podstead("check", "--api-socket", n.Socket())
		for _, name := range unmounted {
			if !regexp.MustCompile("active but not mounted: .*\\b" + name + "\\b|controller .*\\b" + name +
				"\\b.* is active but not mounted").MatchString(text) {
				t.Errorf("%s is not mounted, which the check does not say:\n%s", name, text)
			}
		}
		// Disk usage depends on the machine; the unit tests check the bounds.
		expect(found, "disk", found["disk"].Level, " of the disk of ")
		if found["disk"].Level == "fail" {
			t.Errorf("pods run, and %+v", found["disk"])
		}
		expect(found, "pause-image", "ok") // a pod runs

		n.Kill()
		flags := n.Flags()[1:]
		found = n.Check(healthy, flags...)
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
		found = n.Check(1, append(flags, "--container-runtime-endpoint", "unix://"+n.Dir()+"/none.sock")...)
		expect(found, "ports", "fail", "127.0.0.1:"+port+" is in use by", "(pid "+strconv.Itoa(os.Getpid())+")")
		expect(found, "manifests", "fail", "world-writable")
		expect(found, "runtime", "fail", "socket "+n.Dir()+"/none.sock does not exist")
		out, _, _ := n.Podstead(append([]string{"check"}, flags...)...)
		if !strings.Contains(out, "fix: chmod o-w "+n.Manifests) ||
			!strings.Contains(out, fmt.Sprintf("%d failed", 2+harness.HealthyFailures(t))) {
			t.Errorf("text output:\n%s", out)
		}
		if _, errs, status := n.Podstead("check", "--max-pods", "-3"); status != 2 || !strings.Contains(errs, "--max-pods") {
			t.Errorf("a wrong flag exited with %d: %s", status, errs)
		}
		if err := os.Chmod(n.Manifests, 0o755); err != nil {
			t.Fatal(err)
		}
	})
}
