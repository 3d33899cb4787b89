package csi

import (
	"errors"
	"fmt"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
)

// With the controllers of a real cluster, which are the attach-detach controller, csi-attacher and csi-resizer, a pod
// gets the volume that they attach, the volume grows while the pod uses it, and is detached after the pod.
func TestClusterCSIControllers(t *testing.T) {
	t.Parallel()
	n, c, a, d := newCSICluster(t)
	d.Volume("disk")
	a.Create(
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nautomountServiceAccountToken: false\n---\n" +
			"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: manual}\nprovisioner: " + d.Name +
			"\nallowVolumeExpansion: true\n---\n" +
			"apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: " + d.Name +
			"}\nspec: {attachRequired: true}\n---\n" +
			clusterClaim("disk", "ReadWriteOncePod", "") +
			clusterVolume("disk", "ReadWriteOncePod", "disk", "csi: {driver: "+d.Name+", volumeHandle: disk}"))
	n.MustStart()
	d.Start()
	n.Await("the node has the driver", func() error {
		node := &storagev1.CSINode{}
		if err := a.Get(node, "csinode", n.Name); err != nil {
			return err
		}
		if len(node.Spec.Drivers) != 1 {
			return fmt.Errorf("%+v", node.Spec.Drivers)
		}
		return nil
	})
	if err := errors.Join(
		c.StartController("persistentvolume-binder-controller,persistentvolume-attach-detach-controller"),
		c.StartCSIController("csi-attacher", d.Socket()), c.StartCSIController("csi-resizer", d.Socket()),
	); err != nil {
		t.Fatal(err)
	}

	a.Create(claimUser(n, "app", "disk", "", ""))
	app := n.AwaitRunning("app")
	d.AwaitCalls("disk", "ControllerPublish", "Stage", "Publish")
	for _, call := range d.Calls() {
		if call.Method == "NodeStageVolume" && call.Request.PublishContext["attachedTo"] != "test-node" {
			t.Errorf("the driver got %v of the controller that has attached the volume", call.Request.PublishContext)
		}
	}
	n.MustContain(app, map[string]string{"echo kept > /data/file; cat /data/file": "kept"})

	a.Must("patch", "pvc", "disk", "--type=merge", "-p", `{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}`)
	d.AwaitCalls("disk", "Publish", "ControllerExpand", "Expand")
	awaitClaimSize(a, n, "disk", "2Gi", "")
	n.AwaitEvent("app", "FileSystemResizeSuccessful", `volume "data"`)
	n.MustStillRun("app", app)

	pod := n.AwaitReady("app")
	a.Must("delete", "pod", n.PodName("app"))
	n.AwaitPodDirGone(pod)
	d.AwaitCalls("disk", "Expand", "Unpublish", "Unstage", "ControllerUnpublish")
	awaitVolumesInUse(a, n)
	n.AwaitNoCSI()
}
