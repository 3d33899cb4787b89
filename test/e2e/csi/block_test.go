package csi

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

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

// While the record of the volumes is damaged, a pod with a block device does not end as if it had none, neither while
// the device is mounted, nor when nothing is and the record was moved aside. When the record is back, the driver is called.
func TestCSIDamagedRecordOfABlockDevice(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		d := n.NewCSIDriver("disk")
		d.Device("raw")
		n.WriteManifest("raw.yaml", d.BlockVolume("raw"))
		n.WriteManifest("app.yaml", harness.BlockPod("app", "raw", false))
		n.MustStart()
		d.Start()
		n.AwaitRunning("app")
		shown := n.AwaitReady("app")
		n.Kill()
		record := filepath.Join(n.Root, "csi-volumes.json")
		saved, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		write := func(text []byte) {
			t.Helper()
			if err := os.WriteFile(record, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(saved[:len(saved)/2])
		n.RemoveManifest("app.yaml")
		n.MustStart()
		n.AwaitStatusLine(1, "Storage:", "failed to read which CSI volumes are in use", "restore "+record)
		n.AwaitEvent("app", "FailedKillPod", "failed to read which CSI volumes are in use")

		// As with a driver that publishes a device without a mount.
		n.Kill()
		mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(filepath.Join(n.Root, "plugins/kubernetes.io/csi")))
		if err != nil || len(mounts) == 0 {
			t.Fatalf("mounted: %v, %v", mounts, err)
		}
		for _, m := range mounts {
			if err := unix.Unmount(m.Mountpoint, 0); err != nil {
				t.Fatal(err)
			}
		}
		n.MustStart()
		n.AwaitEvent("app", "FailedKillPod", "was published for the pod", "then remove the file")
		d.AwaitCalls("raw", "Stage", "Publish")

		n.Kill()
		write(saved)
		n.MustStart()
		n.AwaitPodDirGone(shown)
		d.AwaitCalls("raw", "Stage", "Publish", "Unpublish", "Unstage")
		n.AwaitNoCSI()
	})
}
