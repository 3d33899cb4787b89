package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// probedPod returns the manifest of a pod that runs a script with the probes.
func probedPod(name, script, probes string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  terminationGracePeriodSeconds: 10
  containers:
    - name: main
      image: %s
      command: ["sh", "-c", %q]
      ports: [{name: web, containerPort: 8080}]
%s`, name, testbed.BusyboxImage, script, probes)
}

// awaitUnready waits until the daemon reports that a pod runs and is not ready.
func (n *node) awaitUnready(name string) v1.Pod {
	n.t.Helper()
	return n.awaitStatus(name, "not ready", func(p v1.Pod) error {
		c := p.Status.ContainerStatuses
		if len(c) != 1 || c[0].State.Running == nil || c[0].Ready {
			return fmt.Errorf("container statuses are %+v", c)
		}
		return nil
	})
}

const untilTerm = "trap 'exit 0' TERM; sleep 100000 & wait"

func TestProbeExecReadiness(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", probedPod("p", untilTerm, `
      readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 1}
`))
		n.start()
		first := n.awaitRunning("p")
		n.awaitUnready("p")
		n.exec(first, "touch", "/tmp/ready")
		n.awaitReady("p")
		// Across a restart of the daemon the pod stays ready and is not restarted.
		n.restart()
		n.awaitStatus("p", "unchanged", func(p v1.Pod) error {
			if c := p.Status.ContainerStatuses; len(c) == 1 && c[0].State.Running != nil {
				if !c[0].Ready {
					t.Fatalf("after a restart of the daemon: %+v", c)
				}
				return nil
			}
			return errors.New("no status yet")
		})
		n.exec(first, "rm", "/tmp/ready")
		n.awaitUnready("p")
		n.mustStillRun("p", first)
	})
}

func TestProbeHTTPReadinessAfterStartup(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", probedPod("p", "mkdir /www; echo hi > /www/page; sleep 2; httpd -f -p 8080 -h /www & "+untilTerm, `
      startupProbe: {tcpSocket: {port: web}, periodSeconds: 1, failureThreshold: 60}
      readinessProbe: {httpGet: {path: /page, port: web}, periodSeconds: 1, failureThreshold: 1}
      livenessProbe: {httpGet: {path: /page, port: 8080}, periodSeconds: 1, failureThreshold: 1000}
`))
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")
		n.exec(first, "mv", "/www/page", "/www/other")
		n.awaitUnready("p")
		n.exec(first, "mv", "/www/other", "/www/page")
		n.awaitReady("p")
		n.mustStillRun("p", first)
	})
}

func TestProbeLivenessRestarts(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", probedPod("p", untilTerm, `
      livenessProbe: {exec: {command: [test, "!", -e, /tmp/dead]}, periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 2}
`))
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")
		n.exec(first, "touch", "/tmp/dead")
		died := time.Now()
		second := n.awaitOther("p", first)
		// A busy machine may be late, but not by the sync period of a minute.
		if took := time.Since(died); took > 40*time.Second {
			t.Errorf("restarted after %s", took)
		}
		n.awaitStatus("p", "one restart", func(p v1.Pod) error {
			if c := p.Status.ContainerStatuses; len(c) != 1 || c[0].RestartCount != 1 {
				return fmt.Errorf("container statuses are %+v", c)
			}
			return nil
		})
		n.mustStillRun("p", second)
	})
}

// The runtime kills a probe command that hangs, which counts as a failure.
func TestProbeTimeoutEndsTheCommand(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", probedPod("p", untilTerm, `
      readinessProbe: {exec: {command: [sh, -c, "test -e /tmp/ready || exec sleep 4242"]}, periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 1}
`))
		n.start()
		first := n.awaitRunning("p")
		n.awaitUnready("p")
		// Otherwise they would accumulate: one starts each second.
		time.Sleep(6 * time.Second)
		all := n.exec(first, "sh", "-c", "for f in /proc/[0-9]*/cmdline; do cat $f; echo; done")
		if count := strings.Count("\n"+all, "\nsleep\x004242"); count > 1 {
			t.Errorf("%d hanging commands are left", count)
		}
		n.exec(first, "touch", "/tmp/ready")
		n.awaitReady("p")
		n.mustStillRun("p", first)
	})
}
