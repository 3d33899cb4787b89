package network

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/node/firewall"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// mustRun runs a program and fails the test unless it succeeds.
func mustRun(t *testing.T, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
	}
}

// webPod returns the manifest of a pod with a page on a host port.
func webPod(name string, port int) string {
	return harness.ScriptPod(name, "one", 1, "mkdir /www; echo in the pod > /www/index.html; httpd -f -p 80 -h /www") +
		fmt.Sprintf("      ports: [{containerPort: 80, hostPort: %d}]\n", port)
}

// A pod with a host port lets the kernel deliver packets of other pods to 127.0.0.1 of the host.
// A service that listens only there still cannot be reached, while the host port works there.
func TestHostPortKeepsLoopbackClosed(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				c, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "only for the host")
				_ = c.Close()
			}
		}()
		_, private, _ := net.SplitHostPort(listener.Addr().String())

		port := harness.HostPort()
		n.WriteManifest("web.yaml", webPod("web", port))
		n.WriteManifest("intruder.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: intruder}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: %s, command: [sleep, "100000"], securityContext: {privileged: true}}]
`, testbed.BusyboxImage))
		n.MustStart()
		n.AwaitPage(port, "in the pod")
		intruder, ip := n.AwaitRunning("intruder"), n.AwaitReady("intruder").Status.PodIP
		n.Exec(intruder, "sh", "-ec", `echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet
ip addr del 127.0.0.1/8 dev lo
ip route add 127.0.0.1/32 via $(ip route | sed -n 's/^default via \([0-9.]*\).*/\1/p')`)
		attack := func() string {
			return n.Exec(intruder, "sh", "-c", "nc -w 2 127.0.0.1 "+private+" </dev/null 2>/dev/null || echo unreachable")
		}
		// The attack works where a rule of the host comes before podstead's.
		accept := []string{"INPUT", "-s", ip, "-p", "tcp", "--dport", private, "-j", "ACCEPT"}
		mustRun(t, append([]string{"iptables", "-w", "-I"}, accept...)...)
		n.Await("the intruder reaches the service", func() error {
			if got := attack(); got != "only for the host" {
				return fmt.Errorf("it got %q", got)
			}
			return nil
		})
		mustRun(t, append([]string{"iptables", "-w", "-D"}, accept...)...)
		if got := attack(); got != "unreachable" {
			t.Errorf("a pod got %q from a service that listens only on 127.0.0.1", got)
		}
		n.AwaitPage(port, "in the pod")
	})
}

// The rule is installed at the start of a daemon on a host with route_localnet, and again
// before the next pod with a host port, if it was removed meanwhile. check reports that it is
// missing. The documented command removes it.
func TestLoopbackRuleIsInstalledAgain(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		// The daemon gets its own network namespace, so that the rules are its own.
		mustRun(t, "ip", "netns", "add", n.Name)
		t.Cleanup(func() { mustRun(t, "ip", "netns", "del", n.Name) })
		inside := []string{"nsenter", "--net=/run/netns/" + n.Name}
		program := filepath.Join(n.Dir(), "podstead-in-netns")
		script := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", strings.Join(inside, " "), n.Binary)
		if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		n.Binary = program
		rules := func() string {
			out, err := exec.Command(inside[0], append(inside[1:], "iptables", "-w", "-S")...).CombinedOutput()
			if err != nil {
				t.Fatalf("iptables -S: %v: %s", err, out)
			}
			return string(out)
		}
		awaitRule := func() {
			t.Helper()
			n.Await("the rule is installed", func() error {
				text := rules()
				if strings.Count(text, "-A INPUT -j "+firewall.Chain) != 1 || strings.Count(text, "-A "+firewall.Chain+" ") != 1 {
					return fmt.Errorf("the rules are\n%s", text)
				}
				return nil
			})
		}
		mustRun(t, append(inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet")...)
		if f := n.Check(harness.HealthyStatus(t), n.Flags()[1:]...)["loopback"]; f.Level != "warn" ||
			!strings.Contains(f.Message, "(all)") || !strings.Contains(f.Fix, "start podstead") {
			t.Errorf("check without a daemon: %+v", f)
		}
		n.MustStart()
		awaitRule()
		if f := n.Check(harness.HealthyStatus(t), n.Flags()[1:]...)["loopback"]; f.Level != "ok" {
			t.Errorf("check with the rule: %+v", f)
		}
		mustRun(t, append(inside, "iptables", "-w", "-F")...)
		if f := n.Check(harness.HealthyStatus(t), "--api-socket", n.Socket())["loopback"]; f.Level != "warn" ||
			!strings.Contains(f.Fix, "restart podstead") {
			t.Errorf("check after a flush: %+v", f)
		}
		n.WriteManifest("web.yaml", webPod("web", harness.HostPort()))
		n.AwaitRunning("web")
		awaitRule()
		n.WriteManifest("second.yaml", webPod("second", harness.HostPort()))
		n.AwaitRunning("second")
		awaitRule()
		mustRun(t, append(inside, "sh", "-ec", firewall.Remove)...)
		if text := rules(); strings.Contains(text, firewall.Chain) {
			t.Errorf("after its removal the rules are\n%s", text)
		}
	})
}
