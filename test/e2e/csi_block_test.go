package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// device makes a volume that is a block device and begins with "from the host". It returns the file with what is
// written to the device.
func (d *csiDriver) device(id string) (file string) {
	t := d.n.t
	t.Helper()
	file = filepath.Join(d.n.Dir(), id+".img")
	if err := os.WriteFile(file, append([]byte("from the host\n"), make([]byte, 8<<20-14)...), 0o600); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(loopDevice(t, file), &st); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(filepath.Join(d.dir, "volumes", id), unix.S_IFBLK|0o600, int(st.Rdev)); err != nil {
		t.Fatal(err)
	}
	return file
}

// blockVolume is a volume of the driver that is a block device, and the claim that is bound to it.
func (d *csiDriver) blockVolume(name string) string {
	return strings.NewReplacer("NAME", name, "DRIVER", d.name).Replace("---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: NAME}\n"+
		"spec: {accessModes: [ReadWriteOnce], capacity: {storage: 8Mi}, volumeMode: Block, csi: {driver: DRIVER, volumeHandle: NAME}}\n") +
		storageClaim(name, "8Mi", "storageClassName: '', volumeName: "+name+", volumeMode: Block")
}

// A container that is not privileged opens the block device of a CSI driver, which stays published over a
// restart of podstead and is unpublished after its pod.
func TestCSIBlockVolumes(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		d := n.newCSIDriver("disk")
		file := d.device("raw")
		n.writeManifest("raw.yaml", d.blockVolume("raw"))
		n.writeManifest("app.yaml", blockPod("app", "raw", false))
		n.start()
		d.start()
		app := n.awaitRunning("app")
		n.mustContain(app, map[string]string{
			"head -n1 /dev/disk":                 "from the host",
			"test -b /dev/disk && echo a device": "a device",
			"echo 'from the pod' | dd of=/dev/disk bs=512 seek=2048 conv=fsync 2>/dev/null && dd if=/dev/disk bs=512 skip=2048 count=1 2>/dev/null | head -n1": "from the pod",
		})
		d.awaitCalls("raw", "Stage", "Publish")
		n.restart()
		n.mustStillRun("app", app)
		shown := n.awaitReady("app")
		n.Kill()
		n.removeManifest("app.yaml")
		n.start()
		n.awaitPodDirGone(shown)
		d.awaitCalls("raw", "Stage", "Publish", "Unpublish", "Unstage")
		n.awaitNoCSI()
		content, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(content[1<<20:], []byte("from the pod\n")) {
			t.Errorf("the device does not have what the pod has written: %q, %v", content[1<<20:1<<20+20], err)
		}
	})
}
