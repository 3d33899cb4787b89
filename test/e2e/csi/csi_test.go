package csi

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/e2e/harness"
)

// A pod gets the volume of a CSI driver that runs as a pod of the node, and waits for a driver that is
// absent. The volume stays mounted over the end of podstead, of the driver and of the container, and is
// unmounted when the manifest is gone, also if podstead did not run then.
func TestCSIVolumes(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		d := n.NewCSIDriver("disk")
		data := d.Volume("data")
		n.WriteManifest("app.yaml", harness.ClaimPod("app", "data")+d.CSIVolume("data", "", ""))
		n.MustStart()
		n.AwaitWaiting("app", "FailedMount", "CSI driver "+d.Name+" is not registered",
			filepath.Join(n.Root, "plugins_registry"))
		driver := d.Start()
		app := n.AwaitRunning("app")
		d.AwaitCalls("data", "Stage", "Publish")
		n.MustContain(app, map[string]string{"echo kept > /data/file; cat /data/file": "kept"})
		n.MustHaveFile(filepath.Join(data, "file"), "kept\n")
		if found := n.CsiMounts(); len(found) != 2 {
			t.Errorf("mounted: %v", found)
		}

		// podstead is killed, and finds what is mounted; its pods and the driver go on.
		n.Restart()
		n.MustStillRun("app", app)
		n.MustStillRun(d.PodName(), driver)

		// The driver ends, and a container of the pod starts again without it.
		n.RemoveManifest(d.Manifest())
		n.AwaitGone(d.PodName())
		if err := unix.Kill(app.Pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		app = n.AwaitOther("app", app)
		n.MustContain(app, map[string]string{"cat /data/file": "kept"})
		d.AwaitCalls("data", "Stage", "Publish")

		// The pod is removed while podstead and the driver are down: the driver is called as soon as it is back.
		shown := n.AwaitReady("app")
		n.Kill()
		n.RemoveManifest("app.yaml")
		n.MustStart()
		n.AwaitGone("app")
		if found := n.CsiMounts(); len(found) != 2 {
			t.Errorf("mounted without a driver that could unmount it: %v", found)
		}
		d.Start()
		d.AwaitCalls("data", "Stage", "Publish", "Unpublish", "Unstage")
		n.AwaitPodDirGone(shown)
		n.AwaitNoCSI()
		n.MustHaveFile(filepath.Join(data, "file"), "kept\n")
	})
}
