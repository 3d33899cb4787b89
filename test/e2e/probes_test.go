package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

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

// untilTerm is a script that runs until SIGTERM.
const untilTerm = "trap 'exit 0' TERM; sleep 100000 & wait"

func TestProbeExecReadiness(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", probedPod("p", untilTerm, `
      readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}
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
      startupProbe: {tcpSocket: {port: web}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1000}
      readinessProbe: {httpGet: {path: /page, port: web}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}
      livenessProbe: {httpGet: {path: /page, port: 8080}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1000}
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
      livenessProbe: {exec: {command: [test, "!", -e, /tmp/dead]}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 2}
`))
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")
		n.exec(first, "touch", "/tmp/dead")
		second := n.awaitOther("p", first)
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
      readinessProbe: {exec: {command: [sh, -c, "echo >> /tmp/runs; test -e /tmp/ready || exec sleep 4242"]}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}
`))
		n.start()
		first := n.awaitRunning("p")
		n.awaitUnready("p")
		n.await("several commands have hung, and at most one is left", func() error {
			// Otherwise they would accumulate.
			all := n.exec(first, "sh", "-c", "wc -l < /tmp/runs; for f in /proc/[0-9]*/cmdline; do cat $f; echo; done")
			runs, commands, _ := strings.Cut(all, "\n")
			left := strings.Count("\n"+commands, "\nsleep\x004242")
			if count, err := strconv.Atoi(runs); err != nil || count < 5 || left > 1 {
				return fmt.Errorf("%s commands were started, %d are left, %v", runs, left, err)
			}
			return nil
		})
		n.exec(first, "touch", "/tmp/ready")
		n.awaitReady("p")
		n.mustStillRun("p", first)
	})
}
