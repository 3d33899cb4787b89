package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// A user edits a manifest, waits for the pod and restarts it with the podstead command alone.
func TestWaitAndRestart(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.MustStart()
		file := filepath.Join(n.Manifests, "p.yaml")
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.CLI(0, []string{"pod/" + n.PodName("p") + " is ready"}, "wait", "p", "--timeout=10m")
		before := n.AwaitReady("p")
		n.WriteManifest("p.yaml", strings.Replace(harness.SleepPod("p", "one"), "image: ",
			"image: docker.io/library/none:1 #", 1))
		n.Await("the wait ends and names the image", func() error {
			out, errs, status := n.Podstead("wait", "p", "--for=revision", "--timeout=10s", "--api-socket", n.Socket())
			if status != 124 || !strings.Contains(out+errs, "none:1") {
				return fmt.Errorf("exit code %d: %s%s", status, out, errs)
			}
			return nil
		})
		n.WriteManifest("p.yaml", strings.Replace(harness.SleepPod("p", "one"), "image:", "imege:", 1))
		n.CLI(1, []string{file + ":9: ", "image"}, "wait", "p", "--for=revision", "--timeout=10m")
		n.WriteManifest("p.yaml", harness.SleepPod("p", "two"))
		// A daemon that is slow still reports the fault of the previous content.
		n.Await("the daemon has read the manifest", func() error {
			body, err := n.Get(t.Context(), "/podstead/v1/manifests")
			if err == nil && strings.Contains(string(body), "imege") {
				err = fmt.Errorf("%s", body)
			}
			return err
		})
		n.CLI(0, []string{"is running the revision in its manifest"}, "wait", "-f", file, "--for=revision", "--timeout=10m")
		if now := n.AwaitReady("p"); now.UID == before.UID || now.Status.ContainerStatuses[0].State.Running == nil {
			t.Errorf("after the wait the pod is %s (before: %s): %+v", now.UID, before.UID, now.Status)
		}
		before = n.AwaitReady("p")
		n.CLI(0, []string{"restarting", "restarted"}, "restart", "pod", "p", "--wait", "--timeout=10m")
		now := n.AwaitReady("p")
		if now.UID != before.UID ||
			now.Status.ContainerStatuses[0].ContainerID == before.Status.ContainerStatuses[0].ContainerID {
			t.Errorf("after the restart the pod is %s %+v, before it was %s %+v", now.UID, now.Status, before.UID, before.Status)
		}
		n.CLI(0, []string{"restart requested"}, "get", "events", "p")
		n.RemoveManifest("p.yaml")
		n.CLI(0, []string{"pod/p"}, "wait", "p", "--for=delete", "--timeout=10m")
	})
}
