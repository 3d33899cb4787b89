package probes

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
)

// The latency of the deciding probe: of readiness in the API, and of SIGTERM after a liveness
// failure. The benchmark checks the times on a quiet machine; this test prints them.
func TestProbesActImmediately(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", n.ScriptedPod("p", 60, "", harness.ScriptedContainer{Name: "main", Script: sleepUntilTerm,
			Fields: "livenessProbe: {exec: {command: [sh, -c, '. /out/lib; test ! -e /out/die || { note failed; exit 1; }']}, " +
				"periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}\n" +
				"readinessProbe: {exec: {command: [sh, -c, '. /out/lib; test -e /out/go && { test -e /out/p-main-ready || note " +
				"ready; }']}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}"}))
		n.MustStart()
		n.AwaitRunning("p")
		awaitUnready(n, "p")
		if err := os.WriteFile(filepath.Join(n.OutDir(), "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		shown := 0.0
		n.AwaitStatus("p", "ready", func(p v1.Pod) error {
			if c := p.Status.ContainerStatuses; len(c) != 1 || !c[0].Ready {
				return errors.New("not ready")
			}
			shown = harness.Uptime(t)
			return nil
		})
		if err := os.WriteFile(filepath.Join(n.OutDir(), "die"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		term := n.AwaitRecorded("p-main-term")
		show, signal := shown-n.AwaitRecorded("p-main-ready"), term-n.AwaitRecorded("p-main-failed")
		t.Logf("readiness is in the API after %.2f s, SIGTERM comes after %.2f s", show, signal)
	})
}

// sleepUntilTerm exits immediately on SIGTERM and records the time.
const sleepUntilTerm = "trap 'note term; exit 0' TERM; sleep 100000 & wait"
