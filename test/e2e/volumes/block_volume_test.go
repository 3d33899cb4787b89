package volumes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/e2e/harness"
)

const blockDocuments = `apiVersion: v1
kind: PersistentVolume
metadata: {name: raw}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 8Mi}
  storageClassName: raw
  volumeMode: Block
  local: {path: %[1]s/by-id}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: plain}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 8Mi}, storageClassName: plain, hostPath: {path: %[1]s/plain, type: DirectoryOrCreate}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: other}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 8Mi}, storageClassName: other, hostPath: {path: %[1]s/other, type: DirectoryOrCreate}}
`

// A container that is not privileged opens the block device of a local volume. A volume of the
// other mode keeps its pod waiting.
func TestBlockVolumes(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		file := filepath.Join(n.Dir(), "disk.img")
		if err := os.WriteFile(file, append([]byte("from the host\n"), make([]byte, 8<<20-14)...), 0o600); err != nil {
			t.Fatal(err)
		}
		device := harness.LoopDevice(t, file)
		if err := os.Symlink(device, filepath.Join(n.Dir(), "by-id")); err != nil {
			t.Fatal(err)
		}
		// The kernel opens devices of file systems, LVM and swap in this way.
		used, err := os.OpenFile(device, os.O_RDONLY|unix.O_EXCL, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer used.Close()
		n.WriteManifest("storage.yaml", fmt.Sprintf(blockDocuments, n.Dir()))
		n.WriteManifest("claims.yaml",
			harness.StorageClaim("disk", "8Mi", "storageClassName: raw, volumeMode: Block")+
				harness.StorageClaim("files", "8Mi", "storageClassName: plain")+
				harness.StorageClaim("none", "8Mi", "storageClassName: other, volumeMode: Block"))
		n.WriteManifest("writer.yaml", harness.BlockPod("writer", "disk", false))
		n.WriteManifest("reader.yaml", harness.BlockPod("reader", "disk", true))
		n.WriteManifest("mounts.yaml", harness.ClaimPod("mounts", "disk"))
		n.WriteManifest("opens.yaml", harness.BlockPod("opens", "files", false))
		n.WriteManifest("unbound.yaml", harness.BlockPod("unbound", "none", false))
		n.WriteManifest("refused.yaml", "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: refused}\n"+
			"spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, volumeMode: Block, hostPath: {path: /dev/sda}}\n")
		n.MustStart()
		n.AwaitWaiting("writer", "FailedMount", "block device "+device+" is in use by the host or by another pod",
			"lsblk "+device)
		if err := used.Close(); err != nil {
			t.Fatal(err)
		}
		writer := n.AwaitRunning("writer")
		n.MustContain(writer, map[string]string{
			"head -n1 /dev/disk":                 "from the host",
			"test -b /dev/disk && echo a device": "a device",
			"echo 'from the pod' | dd of=/dev/disk bs=512 seek=2048 conv=fsync 2>/dev/null && dd if=/dev/disk bs=512 " +
				"skip=2048 count=1 2>/dev/null | head -n1": "from the pod",
		})
		content, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(content[1<<20:], []byte("from the pod\n")) {
			t.Errorf("the device does not have what the pod has written: %q, %v", content[1<<20:1<<20+20], err)
		}
		reader := n.AwaitRunning("reader")
		n.MustContain(reader, map[string]string{
			"head -n1 /dev/disk": "from the host",
			"(echo x > /dev/disk) 2>&1 | grep -o 'not permitted'": "not permitted",
		})
		n.AwaitWaiting("mounts", "FailedMount", "has volumeMode Block, but is in volumeMounts of container main")
		n.AwaitWaiting("opens", "FailedMount", "has volumeMode Filesystem, but is in volumeDevices of container main")
		n.AwaitWaiting("unbound", "FailedMount", "other has volumeMode Filesystem, not Block", "local.path of a block device")
		n.AwaitManifestError("refused.yaml", "spec.volumeMode", "only a local or csi volume can be a block device")
		n.CLI(0, []string{"raw", "8.0 MiB", filepath.Join(n.Dir(), "by-id"), "apps/writer"}, "volumes")

		// The device stays that of the pod while the daemon is gone, and is never written to by it.
		n.Kill()
		n.MustStart()
		n.MustStillRun("writer", writer)
		p, q := n.AwaitReady("writer"), n.AwaitReady("reader")
		n.RemoveManifest("writer.yaml")
		n.RemoveManifest("reader.yaml")
		n.AwaitPodDirGone(p)
		n.AwaitPodDirGone(q)
		n.Await("the claim has no users", func() error {
			if out := n.CLI(0, []string{"raw"}, "volumes"); strings.Contains(out, "apps/writer") {
				return errors.New(out)
			}
			return nil
		})
		n.CLI(0, []string{"its data stays"}, "volumes", "rm", "apps/disk")
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(after, content) {
			t.Errorf("the content of the device has changed: %v", err)
		}
	})
}
