package upgrade

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// An upgrade from a version with CSI volumes keeps what is published: containers run on, the driver is not called
// again, and mounts are the same. Volumes are unpublished and unstaged after their pods, also for a pod that
// was removed during the upgrade, of which only the record of the previous version is left.
func TestUpgradeWithCSIVolumes(t *testing.T) {
	tested := false
	for commit, binary := range testbed.PreviousVersions() {
		if slices.Contains(beforeStorage, commit) {
			continue
		}
		tested = true
		t.Run(commit, func(t *testing.T) {
			if _, err := os.Stat(binary); err != nil {
				t.Fatalf("podstead %s is not built: %v; run make setup", commit, err)
			}
			harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) { upgradeWithCSI(t, n, binary) })
		})
	}
	if !tested {
		t.Fatal("no commit of PREVIOUS_COMMITS has CSI volumes")
	}
}

func upgradeWithCSI(t *testing.T, n *harness.Node, binary string) {
	d := n.NewCSIDriver("disk")
	data, image := d.Volume("data"), d.Device("raw")
	d.Volume("other")
	n.WriteManifest("app.yaml", harness.VolumePod("app",
		"[{name: data, persistentVolumeClaim: {claimName: data}}, {name: inline, csi: {driver: "+d.Name+
			", volumeAttributes: {class: fast}}}]",
		"[{name: data, mountPath: /data}, {name: inline, mountPath: /inline}]", "")+d.CSIVolume("data", "", ""))
	n.WriteManifest("raw.yaml", harness.BlockPod("raw", "raw", false)+d.BlockVolume("raw"))
	n.WriteManifest("removed.yaml", harness.ClaimPod("removed", "other")+d.CSIVolume("other", "", ""))
	n.Binary = binary
	n.MustStart()
	driver := d.Start()
	app, raw := n.AwaitRunning("app"), n.AwaitRunning("raw")
	n.AwaitRunning("removed")
	shown := map[string]v1.Pod{}
	for _, pod := range []string{"app", "raw", "removed"} {
		shown[pod] = n.AwaitReady(pod)
	}
	n.MustContain(app, map[string]string{"echo kept > /data/file; cat /data/file": "kept", "cat /inline/class": "fast"})
	inline := d.InlineVolume("fast")
	before := csiMountIDs(n)

	n.Kill()
	n.RemoveManifest("removed.yaml")
	n.Binary = testbed.Product()
	n.MustStart()

	// Only the record reports what the removed pod used.
	d.AwaitCalls("other", "Stage", "Publish", "Unpublish", "Unstage")
	n.AwaitPodDirGone(shown["removed"])
	for _, pod := range []string{"app", "raw"} {
		if after := n.AwaitReady(pod); after.UID != shown[pod].UID {
			t.Errorf("pod %s has UID %s, %s before the upgrade", pod, after.UID, shown[pod].UID)
		}
	}
	n.MustStillRun("app", app)
	n.MustStillRun("raw", raw)
	n.MustStillRun(d.PodName(), driver)
	n.MustContain(app, map[string]string{"cat /data/file; cat /inline/class": "kept\nfast"})
	n.MustContain(raw, map[string]string{
		"echo 'from the pod' | dd of=/dev/disk bs=512 seek=2048 conv=fsync 2>/dev/null && head -n1 /dev/disk": "from the host",
	})
	after := csiMountIDs(n)
	for path, ids := range after {
		if !slices.Equal(before[path], ids) {
			t.Errorf("%s is mount %v, and was %v before the upgrade", path, ids, before[path])
		}
	}
	// The removed pod's volume was staged and published.
	if len(after) != len(before)-2 {
		t.Errorf("mounted: %v, before the upgrade: %v", after, before)
	}

	// A container starts again with the volumes as they are.
	if err := errors.Join(unix.Kill(app.Pid, unix.SIGKILL), unix.Kill(raw.Pid, unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	n.MustContain(n.AwaitOther("app", app), map[string]string{"cat /data/file; cat /inline/class": "kept\nfast"})
	n.MustContain(n.AwaitOther("raw", raw), map[string]string{"head -n1 /dev/disk": "from the host"})
	d.MustHaveCalled("data", "Stage", "Publish")
	d.MustHaveCalled("raw", "Stage", "Publish")
	d.MustHaveCalled(inline, "Publish")

	n.RemoveManifest("app.yaml")
	n.RemoveManifest("raw.yaml")
	n.AwaitPodDirGone(shown["app"])
	n.AwaitPodDirGone(shown["raw"])
	n.AwaitNoCSI()
	for _, id := range []string{"data", "raw", "other"} {
		d.MustHaveCalled(id, "Stage", "Publish", "Unpublish", "Unstage")
	}
	d.MustHaveCalled(inline, "Publish", "Unpublish")
	n.MustHaveFile(filepath.Join(data, "file"), "kept\n")
	if _, err := os.Stat(filepath.Join(d.Dir, "volumes", inline)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the inline volume is left: %v", err)
	}
	content, err := os.ReadFile(image)
	if err != nil || !bytes.HasPrefix(content[1<<20:], []byte("from the pod\n")) {
		t.Errorf("the device does not have what the pod has written: %.20q, %v", content[min(1<<20, len(content)):], err)
	}
}

// csiMountIDs returns the kernel's IDs of what is mounted of CSI drivers on the node, by path. A volume that is
// mounted again, or twice, has others.
func csiMountIDs(n *harness.Node) map[string][]int {
	n.T.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(n.Root))
	if err != nil {
		n.T.Fatal(err)
	}
	found := map[string][]int{}
	for _, m := range mounts {
		if strings.Contains(m.Mountpoint, "/kubernetes.io~csi/") ||
			strings.Contains(m.Mountpoint, "/plugins/kubernetes.io/csi/") {
			found[m.Mountpoint] = append(found[m.Mountpoint], m.ID)
		}
	}
	if len(found) == 0 {
		n.T.Fatalf("nothing of CSI drivers is mounted below %s", n.Root)
	}
	return found
}
