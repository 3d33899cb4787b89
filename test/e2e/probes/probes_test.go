package probes

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
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
func awaitUnready(n *harness.Node, name string) v1.Pod {
	n.T.Helper()
	return n.AwaitStatus(name, "not ready", func(p v1.Pod) error {
		c := p.Status.ContainerStatuses
		if len(c) != 1 || c[0].State.Running == nil || c[0].Ready {
			return fmt.Errorf("container statuses are %+v", c)
		}
		return nil
	})
}

func TestProbeExecReadiness(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", probedPod("p", harness.UntilTerm, `
      readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}
`))
		n.MustStart()
		first := n.AwaitRunning("p")
		awaitUnready(n, "p")
		n.Exec(first, "touch", "/tmp/ready")
		n.AwaitReady("p")
		// Across a restart of the daemon the pod stays ready and is not restarted.
		n.Restart()
		n.AwaitStatus("p", "unchanged", func(p v1.Pod) error {
			if c := p.Status.ContainerStatuses; len(c) == 1 && c[0].State.Running != nil {
				if !c[0].Ready {
					t.Fatalf("after a restart of the daemon: %+v", c)
				}
				return nil
			}
			return errors.New("no status yet")
		})
		n.Exec(first, "rm", "/tmp/ready")
		awaitUnready(n, "p")
		n.MustStillRun("p", first)
	})
}

func TestProbeHTTPReadinessAfterStartup(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", probedPod("p",
			"mkdir /www; echo hi > /www/page; sleep 2; httpd -f -p 8080 -h /www & "+harness.UntilTerm, `
      startupProbe: {tcpSocket: {port: web}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1000}
      readinessProbe: {httpGet: {path: /page, port: web}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}
      livenessProbe: {httpGet: {path: /page, port: 8080}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1000}
`))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		n.Exec(first, "mv", "/www/page", "/www/other")
		awaitUnready(n, "p")
		n.Exec(first, "mv", "/www/other", "/www/page")
		n.AwaitReady("p")
		n.MustStillRun("p", first)
	})
}

func TestProbeLivenessRestarts(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", probedPod("p", harness.UntilTerm, `
      livenessProbe: {exec: {command: [test, "!", -e, /tmp/dead]}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 2}
`))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		n.Exec(first, "touch", "/tmp/dead")
		second := n.AwaitOther("p", first)
		n.AwaitStatus("p", "one restart", func(p v1.Pod) error {
			if c := p.Status.ContainerStatuses; len(c) != 1 || c[0].RestartCount != 1 {
				return fmt.Errorf("container statuses are %+v", c)
			}
			return nil
		})
		n.MustStillRun("p", second)
	})
}

// The runtime kills a probe command that hangs, which counts as a failure.
func TestProbeTimeoutEndsTheCommand(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", probedPod("p", harness.UntilTerm, `
      readinessProbe: {exec: {command: [sh, -c, "echo >> /tmp/runs; test -e /tmp/ready || exec sleep 4242"]}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}
`))
		n.MustStart()
		first := n.AwaitRunning("p")
		awaitUnready(n, "p")
		n.Await("several commands have hung, and at most one is left", func() error {
			// Otherwise they would accumulate.
			all := n.Exec(first, "sh", "-c", "wc -l < /tmp/runs; for f in /proc/[0-9]*/cmdline; do cat $f; echo; done")
			runs, commands, _ := strings.Cut(all, "\n")
			left := strings.Count("\n"+commands, "\nsleep\x004242")
			if count, err := strconv.Atoi(runs); err != nil || count < 5 || left > 1 {
				return fmt.Errorf("%s commands were started, %d are left, %v", runs, left, err)
			}
			return nil
		})
		n.Exec(first, "touch", "/tmp/ready")
		n.AwaitReady("p")
		n.MustStillRun("p", first)
	})
}
