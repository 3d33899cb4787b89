package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// cli runs a command against the node's daemon and checks its exit code and that the output
// contains each word.
func (n *node) cli(status int, words []string, args ...string) string {
	n.t.Helper()
	out, errs, got := n.podstead(append(args, "--api-socket", n.Socket())...)
	if got != status {
		n.t.Errorf("podstead %s exited with %d, want %d:\n%s%s", strings.Join(args, " "), got, status, out, errs)
	}
	for _, w := range words {
		if !strings.Contains(out+errs, w) {
			n.t.Errorf("podstead %s: no %q in:\n%s%s", strings.Join(args, " "), w, out, errs)
		}
	}
	return out
}

// A user edits a manifest, waits for the pod and restarts it with the podstead command alone.
func TestWaitAndRestart(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.start()
		file := filepath.Join(n.Manifests, "p.yaml")
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.cli(0, []string{"pod/" + n.PodName("p") + " is ready"}, "wait", "p", "--timeout=10m")
		before := n.awaitReady("p")
		n.writeManifest("p.yaml", strings.Replace(sleepPod("p", "one"), "image: ", "image: docker.io/library/none:1 #", 1))
		n.await("the wait ends and names the image", func() error {
			out, errs, status := n.podstead("wait", "p", "--for=revision", "--timeout=10s", "--api-socket", n.Socket())
			if status != 124 || !strings.Contains(out+errs, "none:1") {
				return fmt.Errorf("exit code %d: %s%s", status, out, errs)
			}
			return nil
		})
		n.writeManifest("p.yaml", strings.Replace(sleepPod("p", "one"), "image:", "imege:", 1))
		n.cli(1, []string{file + ":9: ", "image"}, "wait", "p", "--for=revision", "--timeout=10m")
		n.writeManifest("p.yaml", sleepPod("p", "two"))
		// A daemon that is slow still reports the fault of the previous content.
		n.await("the daemon has read the manifest", func() error {
			body, err := n.Get(t.Context(), "/podstead/v1/manifests")
			if err == nil && strings.Contains(string(body), "imege") {
				err = fmt.Errorf("%s", body)
			}
			return err
		})
		n.cli(0, []string{"is running the revision in its manifest"}, "wait", "-f", file, "--for=revision", "--timeout=10m")
		if now := n.awaitReady("p"); now.UID == before.UID || now.Status.ContainerStatuses[0].State.Running == nil {
			t.Errorf("after the wait the pod is %s (before: %s): %+v", now.UID, before.UID, now.Status)
		}
		before = n.awaitReady("p")
		n.cli(0, []string{"restarting", "restarted"}, "restart", "pod", "p", "--wait", "--timeout=10m")
		now := n.awaitReady("p")
		if now.UID != before.UID || now.Status.ContainerStatuses[0].ContainerID == before.Status.ContainerStatuses[0].ContainerID {
			t.Errorf("after the restart the pod is %s %+v, before it was %s %+v", now.UID, now.Status, before.UID, before.Status)
		}
		n.cli(0, []string{"restart requested"}, "get", "events", "p")
		n.removeManifest("p.yaml")
		n.cli(0, []string{"pod/p"}, "wait", "p", "--for=delete", "--timeout=10m")
	})
}
