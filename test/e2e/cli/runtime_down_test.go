package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// With a dead runtime, get pods reports below its table that the node is not ready, and a pod whose manifest
// was removed reports why it does not stop, in an event too. Output for programs has only the objects. When
// the runtime is back, the pod stops and nothing of this is shown any more.
func TestRuntimeThatIsDown(t *testing.T) {
	harness.OnEachPrivateRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("stays.yaml", harness.SleepPod("stays", "one"))
		n.WriteManifest("slow.yaml", harness.ScriptPod("slow", "one", 20, "trap '' TERM; while true; do sleep 1; done"))
		n.WriteManifest("removed.yaml", harness.SleepPod("removed", "one"))
		n.MustStart()
		stays := n.AwaitRunning("stays")
		n.AwaitRunning("slow")
		n.AwaitRunning("removed")
		shows := func(words []string, args ...string) {
			t.Helper()
			n.Await(fmt.Sprintf("%s shows %q", strings.Join(args, " "), words), func() error {
				out, errs, _ := n.Podstead(append(args, "--api-socket", n.Socket())...)
				text := strings.Join(strings.Fields(out+errs), " ")
				for _, word := range words {
					if !strings.Contains(text, word) {
						return fmt.Errorf("no %q in\n%s%s", word, out, errs)
					}
				}
				return nil
			})
		}
		read, interrupt := watchPods(t, n)
		read(n.PodName("removed"), "Running")
		n.RemoveManifest("slow.yaml")
		shows([]string{"Terminating", "pod: default/slow: its grace period of 20s ends in "}, "get", "pods")
		n.Runtime.Kill()
		t.Cleanup(func() {
			if t.Failed() {
				_ = n.Runtime.Start(context.Background()) // the cleanup of the node needs it
			}
		})
		n.RemoveManifest("removed.yaml")
		const fault = "connect: connection refused"
		shows([]string{"node: " + n.Name + " is not ready", fault, "podstead check",
			"pod: default/removed: error killing pod: ",
			"pod: default/slow: error killing pod: "}, "get", "pods")
		read("node: "+n.Name+" is not ready", fault)
		n.AwaitEvent("removed", "FailedKillPod", fault)
		shows([]string{"removed 1/1 Terminating", "error killing pod: ", "not ready: "}, "status")
		for _, format := range []string{"json", "name", "jsonpath={.items[*].metadata.name}"} {
			if _, errs, status := n.Podstead("get", "pods", "-o", format, "--api-socket", n.Socket()); errs != "" ||
				status != 0 {
				t.Errorf("-o %s exits with %d: %s", format, status, errs)
			}
		}
		_, errs, status := n.Podstead("wait", "removed", "--for=delete", "--timeout=1s", "--api-socket", n.Socket())
		if status != 124 || !strings.Contains(errs, "Terminating: error killing pod: ") {
			t.Errorf("the wait exited with %d: %s", status, errs)
		}
		if err := n.Runtime.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		read("node: " + n.Name + " is ready")
		interrupt()
		n.AwaitGone("removed")
		n.AwaitGone("slow")
		n.MustStillRun("stays", stays)
		n.Await("nothing is wrong", func() error {
			_, errs, status := n.Podstead("get", "pods", "--api-socket", n.Socket())
			if errs != "" || status != 0 {
				return errors.New(errs)
			}
			return nil
		})
		if out, _, _ := n.Podstead("get", "pods", "--api-socket", n.Socket()); strings.Count(out, "\n") != 2 {
			t.Errorf("pods of %s:\n%s", filepath.Base(n.Manifests), out)
		}
	})
}
