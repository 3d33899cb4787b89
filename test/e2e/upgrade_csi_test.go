package e2e

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
			onEachRuntime(t, func(t *testing.T, n *node) { upgradeWithCSI(t, n, binary) })
		})
	}
	if !tested {
		t.Fatal("no commit of PREVIOUS_COMMITS has CSI volumes")
	}
}

func upgradeWithCSI(t *testing.T, n *node, binary string) {
	d := n.newCSIDriver("disk")
	data, image := d.volume("data"), d.device("raw")
	d.volume("other")
	n.writeManifest("app.yaml", volumePod("app",
		"[{name: data, persistentVolumeClaim: {claimName: data}}, {name: inline, csi: {driver: "+d.name+", volumeAttributes: {class: fast}}}]",
		"[{name: data, mountPath: /data}, {name: inline, mountPath: /inline}]", "")+d.csiVolume("data", "", ""))
	n.writeManifest("raw.yaml", blockPod("raw", "raw", false)+d.blockVolume("raw"))
	n.writeManifest("removed.yaml", claimPod("removed", "other")+d.csiVolume("other", "", ""))
	n.Binary = binary
	n.start()
	driver := d.start()
	app, raw := n.awaitRunning("app"), n.awaitRunning("raw")
	n.awaitRunning("removed")
	shown := map[string]v1.Pod{}
	for _, pod := range []string{"app", "raw", "removed"} {
		shown[pod] = n.awaitReady(pod)
	}
	n.mustContain(app, map[string]string{"echo kept > /data/file; cat /data/file": "kept", "cat /inline/class": "fast"})
	inline := d.inlineVolume("fast")
	before := n.csiMountIDs()

	n.Kill()
	n.removeManifest("removed.yaml")
	n.Binary = testbed.Product()
	n.start()

	// Only the record says what the removed pod used.
	d.awaitCalls("other", "Stage", "Publish", "Unpublish", "Unstage")
	n.awaitPodDirGone(shown["removed"])
	for _, pod := range []string{"app", "raw"} {
		if after := n.awaitReady(pod); after.UID != shown[pod].UID {
			t.Errorf("pod %s has UID %s, %s before the upgrade", pod, after.UID, shown[pod].UID)
		}
	}
	n.mustStillRun("app", app)
	n.mustStillRun("raw", raw)
	n.mustStillRun(d.podName(), driver)
	n.mustContain(app, map[string]string{"cat /data/file; cat /inline/class": "kept\nfast"})
	n.mustContain(raw, map[string]string{
		"echo 'from the pod' | dd of=/dev/disk bs=512 seek=2048 conv=fsync 2>/dev/null && head -n1 /dev/disk": "from the host",
	})
	after := n.csiMountIDs()
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
	n.mustContain(n.awaitOther("app", app), map[string]string{"cat /data/file; cat /inline/class": "kept\nfast"})
	n.mustContain(n.awaitOther("raw", raw), map[string]string{"head -n1 /dev/disk": "from the host"})
	d.mustHaveCalled("data", "Stage", "Publish")
	d.mustHaveCalled("raw", "Stage", "Publish")
	d.mustHaveCalled(inline, "Publish")

	n.removeManifest("app.yaml")
	n.removeManifest("raw.yaml")
	n.awaitPodDirGone(shown["app"])
	n.awaitPodDirGone(shown["raw"])
	n.awaitNoCSI()
	for _, id := range []string{"data", "raw", "other"} {
		d.mustHaveCalled(id, "Stage", "Publish", "Unpublish", "Unstage")
	}
	d.mustHaveCalled(inline, "Publish", "Unpublish")
	n.mustHaveFile(filepath.Join(data, "file"), "kept\n")
	if _, err := os.Stat(filepath.Join(d.dir, "volumes", inline)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the inline volume is left: %v", err)
	}
	content, err := os.ReadFile(image)
	if err != nil || !bytes.HasPrefix(content[1<<20:], []byte("from the pod\n")) {
		t.Errorf("the device does not have what the pod has written: %.20q, %v", content[min(1<<20, len(content)):], err)
	}
}

// inlineVolume returns the ID of the inline volume that has a class.
func (d *csiDriver) inlineVolume(class string) string {
	d.n.t.Helper()
	for _, c := range d.calls() {
		if c.Request.VolumeContext["class"] == class {
			return c.Request.VolumeID
		}
	}
	d.n.t.Fatalf("no inline volume of class %s was published", class)
	return ""
}

// csiMountIDs returns the kernel's IDs of what is mounted of CSI drivers on the node, by path. A volume that is
// mounted again, or twice, has others.
func (n *node) csiMountIDs() map[string][]int {
	n.t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(n.Root))
	if err != nil {
		n.t.Fatal(err)
	}
	found := map[string][]int{}
	for _, m := range mounts {
		if strings.Contains(m.Mountpoint, "/kubernetes.io~csi/") || strings.Contains(m.Mountpoint, "/plugins/kubernetes.io/csi/") {
			found[m.Mountpoint] = append(found[m.Mountpoint], m.ID)
		}
	}
	if len(found) == 0 {
		n.t.Fatalf("nothing of CSI drivers is mounted below %s", n.Root)
	}
	return found
}
