package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/bed"
)

// outDir is a folder of the host that outlives a pod and that the pods of
// writes below have at /out.
func (n *node) outDir() string { return filepath.Join(n.Dir(), "out") }

// writes is the manifest of a pod whose container "main" runs a script and has
// the node's outDir at /out. more goes below the container, deep below the spec.
func (n *node) writes(name string, grace int, script, more, deep string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: %d
  volumes: [{name: out, hostPath: {path: %s, type: DirectoryOrCreate}}]
%s
  containers:
    - name: main
      image: %s
      command: ["sh", "-c", %q]
      volumeMounts: [{name: out, mountPath: /out}]
%s
`, name, grace, n.outDir(), deep, bed.BusyboxImage, script, more)
}

// awaitOut waits until a file of outDir says this.
func (n *node) awaitOut(file, want string) {
	n.t.Helper()
	n.await(fmt.Sprintf("%s says %q", file, want), func() error {
		got, err := os.ReadFile(filepath.Join(n.outDir(), file))
		if err == nil && strings.TrimSpace(string(got)) != want {
			err = fmt.Errorf("it says %q", got)
		}
		return err
	})
}

// The signal that asks a container to end is the one of its manifest. A runtime
// that would send another one is not given the pod.
func TestStopSignal(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		script := "trap 'echo USR1 > /out/signal; exit 0' USR1; trap 'echo TERM > /out/signal; exit 0' TERM; touch /trapped; while true; do sleep 0.1; done"
		n.put("p.yaml", n.writes("p", 10, script, "      lifecycle: {stopSignal: SIGUSR1}", "  os: {name: linux}"))
		n.start()
		if n.rt.Kind == bed.Containerd16 {
			p := n.awaitStatus("p", "waits for another runtime", func(p v1.Pod) error {
				if p.Status.Reason != "NotSupportedByRuntime" {
					return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
				}
				return nil
			})
			for _, word := range []string{"spec.containers[0].lifecycle.stopSignal", "containerd 1.6.20", "containerd 2.3 or later"} {
				if !strings.Contains(p.Status.Message, word) {
					t.Errorf("%q is not in %q", word, p.Status.Message)
				}
			}
			if all, err := n.sandboxes("p"); err != nil || len(all) > 0 {
				t.Errorf("sandboxes %v, %v, want none", all, err)
			}
			n.put("p.yaml", n.writes("p", 10, script, "", "  os: {name: linux}"))
		}
		n.awaitFile(n.awaitRunning("p"), "/trapped")
		n.drop("p.yaml")
		n.awaitOut("signal", map[bed.Kind]string{bed.Containerd16: "TERM", bed.Containerd24: "USR1"}[n.rt.Kind])
		n.awaitGone("p")
	})
}
