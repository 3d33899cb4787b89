package e2e

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// csiRecord is the record of CSI volumes, of two pods with a volume each, as the versions since the first with such
// volumes write it. It never changes: a version that writes another record still reads this one.
//
//go:embed testdata/csi-volumes.json
var csiRecord string

// An upgrade from a version with CSI volumes keeps a volume that is published: the driver is not called
// again. Volumes are unpublished and unstaged after their pods, also for a pod that was removed during the upgrade.
// The versions of TestUpgradeFromPreviousVersion have no CSI volumes, so the record is that of the file.
func TestUpgradeWithCSIVolumes(t *testing.T) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	onEachRuntime(t, func(t *testing.T, n *node) {
		d := n.newCSIDriver("disk")
		data := d.volume("data")
		d.volume("other")
		n.writeManifest("app.yaml", claimPod("app", "data")+d.csiVolume("data", "", ""))
		n.writeManifest("removed.yaml", claimPod("removed", "other")+d.csiVolume("other", "", ""))
		n.start()
		driver := d.start()
		app := n.awaitRunning("app")
		n.awaitRunning("removed")
		shown, removed := n.awaitReady("app"), n.awaitReady("removed")

		n.Kill()
		record := strings.NewReplacer("ROOT", n.Root, "BOOT", strings.TrimSpace(string(boot)),
			"UID-OF-APP", string(shown.UID), "UID-OF-REMOVED", string(removed.UID)).Replace(csiRecord)
		file := filepath.Join(n.Root, "csi-volumes.json")
		// Where the version under test writes the record, that of the first version takes its place.
		if _, err := os.Stat(file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		n.removeManifest("removed.yaml")
		n.start()

		d.awaitCalls("other", "Stage", "Publish", "Unpublish", "Unstage")
		n.awaitPodDirGone(removed)
		n.mustStillRun("app", app)
		n.mustStillRun(d.podName(), driver)
		n.mustContain(app, map[string]string{"echo kept > /data/file; cat /data/file": "kept"})
		n.mustHaveFile(filepath.Join(data, "file"), "kept\n")
		if found := n.csiMounts(); len(found) != 2 {
			t.Errorf("mounted: %v", found)
		}

		n.removeManifest("app.yaml")
		d.awaitCalls("data", "Stage", "Publish", "Unpublish", "Unstage")
		n.awaitPodDirGone(shown)
		n.awaitNoCSI()
		// Each was called once, also before the calls that were awaited.
		for _, id := range []string{"data", "other"} {
			count := map[string]int{}
			for _, c := range d.calls() {
				if c.Request.VolumeID == id {
					count[c.Method]++
				}
			}
			for _, method := range []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"} {
				if count[method] != 1 {
					t.Errorf("%s was called %d times for volume %s, want once", method, count[method], id)
				}
			}
		}
		n.mustHaveFile(filepath.Join(data, "file"), "kept\n")
	})
}
