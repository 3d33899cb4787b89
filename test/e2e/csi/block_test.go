package csi

import (
	"bytes"
	"os"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
)

// A container that is not privileged opens the block device of a CSI driver, which stays published over a
// restart of podstead and is unpublished after its pod.
func TestCSIBlockVolumes(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		d := n.NewCSIDriver("disk")
		file := d.Device("raw")
		n.WriteManifest("raw.yaml", d.BlockVolume("raw"))
		n.WriteManifest("app.yaml", harness.BlockPod("app", "raw", false))
		n.MustStart()
		d.Start()
		app := n.AwaitRunning("app")
		n.MustContain(app, map[string]string{
			"head -n1 /dev/disk":                 "from the host",
			"test -b /dev/disk && echo a device": "a device",
			"echo 'from the pod' | dd of=/dev/disk bs=512 seek=2048 conv=fsync 2>/dev/null && dd if=/dev/disk bs=512 " +
				"skip=2048 count=1 2>/dev/null | head -n1": "from the pod",
		})
		d.AwaitCalls("raw", "Stage", "Publish")
		n.Restart()
		n.MustStillRun("app", app)
		shown := n.AwaitReady("app")
		n.Kill()
		n.RemoveManifest("app.yaml")
		n.MustStart()
		n.AwaitPodDirGone(shown)
		d.AwaitCalls("raw", "Stage", "Publish", "Unpublish", "Unstage")
		n.AwaitNoCSI()
		content, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(content[1<<20:], []byte("from the pod\n")) {
			t.Errorf("the device does not have what the pod has written: %q, %v", content[1<<20:1<<20+20], err)
		}
	})
}
