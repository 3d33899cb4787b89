package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// barePod starts another client's pod in the node's runtime.
func barePod(n *harness.Node, name, uid string) *testbed.BarePod {
	n.T.Helper()
	p := &testbed.BarePod{Name: name, Namespace: "default", UID: uid, Command: []string{"sleep", "100000"},
		LogDir: filepath.Join(n.Dir(), "foreign-logs")}
	if err := n.Runtime.CRI.Start(n.T.Context(), p); err != nil {
		n.T.Fatal(err)
	}
	return p
}

// The daemon never touches another client's pods.
func TestForeignPodIsLeftAlone(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		foreign := barePod(n, "theirs-"+n.Name, "theirs-"+n.Name)
		pid, err := n.Runtime.CRI.Pid(t.Context(), foreign.Container)
		if err != nil {
			t.Fatal(err)
		}
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.WriteManifest("p.yaml", harness.SleepPod("p", "two"))
		n.AwaitOther("p", first)
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		n.Restart()
		// The whole lifecycle of another pod happens between the restart and the check.
		n.WriteManifest("q.yaml", harness.SleepPod("q", "one"))
		n.AwaitReady("q")
		n.RemoveManifest("q.yaml")
		n.AwaitGone("q")
		if now, err := n.Runtime.CRI.Pid(t.Context(), foreign.Container); err != nil || now != pid ||
			!harness.ProcessExists(pid) {
			t.Errorf("the foreign container had pid %d, has %d (%v)", pid, now, err)
		}
	})
}

// A running pod with the same name that this daemon did not start makes ours wait, with a
// message: two pods must never use one data directory.
func TestForeignPodOfTheSameName(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		foreign := barePod(n, n.PodName("p"), "kubelets-"+n.Name)
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		n.AwaitStatus("p", "waits and names the other sandbox", func(p v1.Pod) error {
			text, err := json.Marshal(p.Status)
			if err != nil {
				return err
			}
			if !strings.Contains(string(text), foreign.Sandbox[:12]) {
				return fmt.Errorf("status does not name sandbox %s: %s", foreign.Sandbox, text)
			}
			return nil
		})
		if all, err := n.Sandboxes("p"); err != nil || len(all) != 1 {
			t.Fatalf("sandboxes %v, %v: want only the foreign one", all, err)
		}
		if err := n.Runtime.CRI.RemovePod(t.Context(), foreign.Sandbox); err != nil {
			t.Fatal(err)
		}
		n.AwaitRunning("p")
	})
}

// Two daemons on one runtime, each with a pod of the same manifest, do not interfere.
func TestTwoDaemonsOnOneRuntime(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		other := harness.NewNode(t, n.Runtime)
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		other.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		other.MustStart()
		ours, theirs := n.AwaitRunning("p"), other.AwaitRunning("p")
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		other.Restart()
		other.AwaitReady("p")
		other.MustStillRun("p", theirs)
		if harness.ProcessExists(ours.Pid) {
			t.Error("our pod still runs")
		}
	})
}

// A deleted root directory must not start a pod twice: running pods are recognized by their
// labels.
func TestRootDirWiped(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		n.Kill()
		if err := errors.Join(harness.RemoveFiles(n.Root)...); err != nil {
			t.Fatal(err)
		}
		n.MustStart()
		n.AwaitReady("p")
		n.MustStillRun("p", first)
		n.AwaitExactly(1)
		// Only the runtime knows the owner of the pod, and its manifest is broken: the pod
		// keeps running and is taken over when the manifest is repaired.
		n.Kill()
		if err := errors.Join(harness.RemoveFiles(n.Root)...); err != nil {
			t.Fatal(err)
		}
		n.WriteManifest("p.yaml", "broken: [")
		n.WriteManifest("other.yaml", harness.SleepPod("other", "one"))
		n.MustStart()
		n.AwaitManifestError("p.yaml")
		n.AwaitReady("other")
		n.RemoveManifest("other.yaml")
		n.AwaitGone("other")
		n.MustStillRun("p", first)
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.AwaitReady("p")
		n.MustStillRun("p", first)
		n.AwaitExactly(1)
	})
}
