package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A container that is not privileged opens the block device of a CSI driver, which stays published over a
// restart of podstead and is unpublished after its pod.
func TestCSIBlockVolumes(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		file := filepath.Join(n.Dir(), "disk.img")
		if err := os.WriteFile(file, append([]byte("from the host\n"), make([]byte, 8<<20-14)...), 0o600); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(loopDevice(t, file), &st); err != nil {
			t.Fatal(err)
		}
		d := n.newCSIDriver("disk")
		if err := unix.Mknod(filepath.Join(d.dir, "volumes/raw"), unix.S_IFBLK|0o600, int(st.Rdev)); err != nil {
			t.Fatal(err)
		}
		n.writeManifest("raw.yaml", "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: raw}\n"+
			"spec: {accessModes: [ReadWriteOnce], capacity: {storage: 8Mi}, volumeMode: Block, csi: {driver: "+d.name+", volumeHandle: raw}}\n"+
			storageClaim("raw", "8Mi", "storageClassName: '', volumeName: raw, volumeMode: Block"))
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
