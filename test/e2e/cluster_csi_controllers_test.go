package e2e

import (
	"errors"
	"fmt"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
)

// With the controllers of a real cluster, which are the attach-detach controller, csi-attacher and csi-resizer, a pod gets
// the volume that they attach, the volume grows while the pod uses it, and is detached after the pod.
func TestClusterCSIControllers(t *testing.T) {
	t.Parallel()
	n, c, a, d := newCSICluster(t)
	d.volume("disk")
	a.create("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nautomountServiceAccountToken: false\n---\n" +
		"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: manual}\nprovisioner: " + d.name + "\nallowVolumeExpansion: true\n---\n" +
		"apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: " + d.name + "}\nspec: {attachRequired: true}\n---\n" +
		clusterClaim("disk", "ReadWriteOncePod", "") + clusterVolume("disk", "ReadWriteOncePod", "disk", "csi: {driver: "+d.name+", volumeHandle: disk}"))
	n.start()
	d.start()
	n.await("the node has the driver", func() error {
		node := &storagev1.CSINode{}
		if err := a.get(node, "csinode", n.Name); err != nil {
			return err
		}
		if len(node.Spec.Drivers) != 1 {
			return fmt.Errorf("%+v", node.Spec.Drivers)
		}
		return nil
	})
	if err := errors.Join(
		c.StartController("persistentvolume-binder-controller,persistentvolume-attach-detach-controller"),
		c.StartCSIController("csi-attacher", d.socket()), c.StartCSIController("csi-resizer", d.socket()),
	); err != nil {
		t.Fatal(err)
	}

	a.create(n.claimUser("app", "disk", "", ""))
	app := n.awaitRunning("app")
	d.awaitCalls("disk", "ControllerPublish", "Stage", "Publish")
	for _, call := range d.calls() {
		if call.Method == "NodeStageVolume" && call.Request.PublishContext["attachedTo"] != "test-node" {
			t.Errorf("the driver got %v of the controller that has attached the volume", call.Request.PublishContext)
		}
	}
	n.mustContain(app, map[string]string{"echo kept > /data/file; cat /data/file": "kept"})

	a.must("patch", "pvc", "disk", "--type=merge", "-p", `{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}`)
	d.awaitCalls("disk", "Publish", "ControllerExpand", "Expand")
	a.awaitClaimSize(n, "disk", "2Gi", "")
	n.awaitEvent("app", "FileSystemResizeSuccessful", `volume "data"`)
	n.mustStillRun("app", app)

	pod := n.awaitReady("app")
	a.must("delete", "pod", n.PodName("app"))
	n.awaitPodDirGone(pod)
	d.awaitCalls("disk", "Expand", "Unpublish", "Unstage", "ControllerUnpublish")
	a.awaitVolumesInUse(n)
	n.awaitNoCSI()
}
