package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// barePod starts another client's pod in the node's runtime.
func (n *node) barePod(name, uid string) *testbed.BarePod {
	n.t.Helper()
	p := &testbed.BarePod{Name: name, Namespace: "default", UID: uid, Command: []string{"sleep", "100000"},
		LogDir: filepath.Join(n.Dir(), "foreign-logs")}
	if err := n.rt.CRI.Start(n.t.Context(), p); err != nil {
		n.t.Fatal(err)
	}
	return p
}

// owns reports whether a sandbox with this name belongs to a pod of the node.
func (n *node) owns(sandbox string) bool { return strings.HasSuffix(sandbox, "-"+n.Name) }

// The daemon never touches another client's pods.
func TestForeignPodIsLeftAlone(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		foreign := n.barePod("theirs-"+n.Name, "theirs-"+n.Name)
		pid, err := n.rt.CRI.Pid(t.Context(), foreign.Container)
		if err != nil {
			t.Fatal(err)
		}
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		first := n.awaitRunning("p")
		n.writeManifest("p.yaml", sleepPod("p", "two"))
		n.awaitOther("p", first)
		n.removeManifest("p.yaml")
		n.awaitGone("p")
		n.restart()
		// The whole lifecycle of another pod happens between the restart and the check.
		n.writeManifest("q.yaml", sleepPod("q", "one"))
		n.awaitReady("q")
		n.removeManifest("q.yaml")
		n.awaitGone("q")
		if now, err := n.rt.CRI.Pid(t.Context(), foreign.Container); err != nil || now != pid || !processExists(pid) {
			t.Errorf("the foreign container had pid %d, has %d (%v)", pid, now, err)
		}
	})
}

// A running pod with the same name that this daemon did not start makes ours wait, with a
// message: two pods must never use one data directory.
func TestForeignPodOfTheSameName(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		foreign := n.barePod(n.PodName("p"), "kubelets-"+n.Name)
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		n.awaitStatus("p", "waits and names the other sandbox", func(p v1.Pod) error {
			text, err := json.Marshal(p.Status)
			if err != nil {
				return err
			}
			if !strings.Contains(string(text), foreign.Sandbox[:12]) {
				return fmt.Errorf("status does not name sandbox %s: %s", foreign.Sandbox, text)
			}
			return nil
		})
		if all, err := n.sandboxes("p"); err != nil || len(all) != 1 {
			t.Fatalf("sandboxes %v, %v: want only the foreign one", all, err)
		}
		if err := n.rt.CRI.RemovePod(t.Context(), foreign.Sandbox); err != nil {
			t.Fatal(err)
		}
		n.awaitRunning("p")
	})
}

// Two daemons on one runtime, each with a pod of the same manifest, do not interfere.
func TestTwoDaemonsOnOneRuntime(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		other := newNode(t, n.rt)
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		other.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		other.start()
		ours, theirs := n.awaitRunning("p"), other.awaitRunning("p")
		n.removeManifest("p.yaml")
		n.awaitGone("p")
		other.restart()
		other.awaitReady("p")
		other.mustStillRun("p", theirs)
		if processExists(ours.Pid) {
			t.Error("our pod still runs")
		}
	})
}

// A deleted root directory must not start a pod twice: running pods are recognized by their
// labels.
func TestRootDirWiped(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")
		n.Kill()
		if err := errors.Join(removeFiles(n.Root)...); err != nil {
			t.Fatal(err)
		}
		n.start()
		n.awaitReady("p")
		n.mustStillRun("p", first)
		n.awaitExactly(1)
		// Only the runtime knows the owner of the pod, and its manifest is broken: the pod
		// keeps running and is taken over when the manifest is repaired.
		n.Kill()
		if err := errors.Join(removeFiles(n.Root)...); err != nil {
			t.Fatal(err)
		}
		n.writeManifest("p.yaml", "broken: [")
		n.writeManifest("other.yaml", sleepPod("other", "one"))
		n.start()
		n.awaitManifestError("p.yaml")
		n.awaitReady("other")
		n.removeManifest("other.yaml")
		n.awaitGone("other")
		n.mustStillRun("p", first)
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.awaitReady("p")
		n.mustStillRun("p", first)
		n.awaitExactly(1)
	})
}
