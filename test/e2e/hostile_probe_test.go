package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// maxMemory is what the daemon may need at its peak, in bytes, whatever a container does.
const maxMemory = 200 << 20

// Probes whose commands print far too much cost neither memory nor the container.
func TestProbeOutputCostsNoMemory(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		var pod strings.Builder
		pod.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: loud}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n")
		names := []string{"main", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"}
		for _, name := range names {
			fmt.Fprintf(&pod, `    - name: %s
      image: %s
      command: [sleep, "100000"]
      securityContext: {runAsUser: 65534, capabilities: {drop: [ALL]}}
      livenessProbe: {exec: {command: [head, -c, "15000000", /dev/zero]}, periodSeconds: 1, timeoutSeconds: 100, failureThreshold: 1}
`, name, testbed.BusyboxImage)
		}
		n.writeManifest("loud.yaml", pod.String())
		n.start()
		first := n.awaitContainer("loud", "main")
		for _, name := range names {
			n.awaitEvent("loud", "Unhealthy", "print less than 256 KiB", "(container "+name+")")
		}
		n.mustStillRun("loud", first)
		if peak := peakMemory(t, n.Pid()); peak > maxMemory {
			t.Errorf("the daemon needed %d MiB", peak>>20)
		}
	})
}

// peakMemory returns the most resident memory that a process has had, in bytes.
func peakMemory(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscanf(rest, "%d kB", &bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	return bytes << 10
}
