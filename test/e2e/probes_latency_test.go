package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The latency of the deciding probe: of readiness in the API, and of SIGTERM after a liveness
// failure. The benchmark checks the times on a quiet machine; this test prints them.
func TestProbesActImmediately(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", n.scriptedPod("p", 60, "", scriptedContainer{"main", sleepUntilTerm,
			"livenessProbe: {exec: {command: [sh, -c, '. /out/lib; test ! -e /out/die || { note failed; exit 1; }']}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}\n" +
				"readinessProbe: {exec: {command: [sh, -c, '. /out/lib; test -e /out/go && { test -e /out/p-main-ready || note ready; }']}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}"}))
		n.start()
		n.awaitRunning("p")
		n.awaitUnready("p")
		if err := os.WriteFile(filepath.Join(n.outDir(), "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		shown := 0.0
		n.awaitStatus("p", "ready", func(p v1.Pod) error {
			if c := p.Status.ContainerStatuses; len(c) != 1 || !c[0].Ready {
				return errors.New("not ready")
			}
			shown = uptime(t)
			return nil
		})
		if err := os.WriteFile(filepath.Join(n.outDir(), "die"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		term := n.awaitRecorded("p-main-term")
		show, signal := shown-n.awaitRecorded("p-main-ready"), term-n.awaitRecorded("p-main-failed")
		t.Logf("readiness is in the API after %.2f s, SIGTERM comes after %.2f s", show, signal)
	})
}

// sleepUntilTerm exits immediately on SIGTERM and records the time.
const sleepUntilTerm = "trap 'note term; exit 0' TERM; sleep 100000 & wait"
