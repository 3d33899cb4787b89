package csi

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// newCSICluster returns a node that has not started yet, the cluster that it joins, and a CSI driver of the node.
func newCSICluster(t *testing.T) (*harness.Node, *testbed.Cluster, *harness.Admin, *harness.CSIDriver) {
	t.Helper()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	c, a, kubeconfig := harness.NewCluster(t.Context(), n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	n.OwnPort()
	return n, c, a, n.NewCSIDriver("disk")
}

// awaitVolumesInUse waits until the Node object has these volumes in use.
func awaitVolumesInUse(a *harness.Admin, n *harness.Node, want ...v1.UniqueVolumeName) {
	n.T.Helper()
	a.AwaitNodeStatus(n, fmt.Sprintf("the volumes in use are %v", want), func(node *v1.Node) error {
		if got := node.Status.VolumesInUse; !slices.Equal(got, want) {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
}

// Pods of a cluster use the volumes of a CSI driver as on a kubelet's node: the pod waits until the attacher,
// for which the test stands, has attached its volume, and the driver gets what the attacher and its CSIDriver
// object say. What is published is unpublished and unstaged, also if the pod is deleted while podstead is killed.
func TestClusterCSI(t *testing.T) {
	t.Parallel()
	n, c, a, d := newCSICluster(t)
	d.Set("without/VOLUME_MOUNT_GROUP", "")
	disk := d.Volume("disk")
	if err := c.StartController("persistentvolume-binder-controller"); err != nil {
		t.Fatal(err)
	}
	a.Create(
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nautomountServiceAccountToken: false\n---\n" +
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: storage}\n---\n" +
			secretOf("storage", "disk", "s1") + secretOf("default", "inline", "s2") + fmt.Sprintf(`---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: %s}
spec:
  attachRequired: true
  podInfoOnMount: true
  fsGroupPolicy: File
  requiresRepublish: true
  tokenRequests: [{audience: vault}]
  volumeLifecycleModes: [Persistent, Ephemeral]
---
`, d.Name) + clusterClaim("disk", "ReadWriteMany", "") +
			clusterVolume("disk", "ReadWriteMany", "disk", "mountOptions: [noatime], csi: {driver: "+d.Name+
				", volumeHandle: disk, volumeAttributes: {color: red}, nodePublishSecretRef: {name: disk, namespace: storage}}"))
	n.MustStart()
	driver := d.Start()

	// The driver is in the CSINode object, by which the attacher knows the node.
	n.Await("the CSINode object has the driver", func() error {
		node := &storagev1.CSINode{}
		if err := a.Get(node, "csinode", n.Name); err != nil {
			return err
		}
		if len(node.Spec.Drivers) != 1 || node.Spec.Drivers[0].Name != d.Name || node.Spec.Drivers[0].NodeID != "test-node" {
			return fmt.Errorf("%+v", node.Spec.Drivers)
		}
		return nil
	})

	a.Create(n.ClusterPod("app", testbed.BusyboxImage, fmt.Sprintf(`serviceAccountName: default
securityContext: {fsGroup: 2345}
volumes:
- {name: data, persistentVolumeClaim: {claimName: disk}}
- {name: inline, csi: {driver: %s, volumeAttributes: {class: fast}, nodePublishSecretRef: {name: inline}}}
`, d.Name), "volumeMounts: [{name: data, mountPath: /data}, {name: inline, mountPath: /inline}]\n"))
	n.AwaitWaiting("app", "FailedMount", "PersistentVolume disk", "attach")
	awaitClusterVolume(n, "disk", "1Gi", d.Name+":disk", "csi", "Waiting",
		n.PodName("app")+" waits: PersistentVolume disk: ", "VolumeAttachment")
	name, attachment := d.Attachment("disk")
	a.Create(attachment)
	a.Must("patch", "volumeattachment", name, "--subresource", "status", "--type=merge", "-p",
		`{"status": {"attached": true, "attachmentMetadata": {"device": "sdb"}}}`)
	n.AwaitWaiting("app", "FailedMount", "PersistentVolume disk", "status.volumesAttached")
	a.Must("patch", "node", n.Name, "--subresource", "status", "--type=merge", "-p",
		fmt.Sprintf(`{"status": {"volumesAttached": [{"name": "kubernetes.io/csi/%s^disk", "devicePath": ""}]}}`, d.Name))
	app := n.AwaitRunning("app")
	awaitClusterVolume(n, "disk", "default/"+n.PodName("app"), d.Name+":disk", "Bound")
	n.MustContain(app, map[string]string{
		"echo kept > /data/file; cat /data/file; stat -c %g /data":    "kept\n2345",
		"grep -o ' /data [^ ]* [^ ]*' /proc/mounts | grep -c noatime": "1",
		"cat /inline/class": "fast",
	})
	n.MustHaveFile(filepath.Join(disk, "file"), "kept\n")
	awaitVolumesInUse(a, n, v1.UniqueVolumeName("kubernetes.io/csi/"+d.Name+"^disk"))
	var inline string
	for _, call := range d.Calls() {
		r := call.Request
		podName, token := r.VolumeContext["csi.storage.k8s.io/pod.name"],
			r.VolumeContext["csi.storage.k8s.io/serviceAccount.tokens"]
		kind, want := call.Method, map[string]string{"device": "sdb"}
		if r.VolumeContext["class"] == "fast" {
			kind, want, inline = "inline", nil, r.VolumeID
		}
		switch kind {
		case "NodeStageVolume":
			if podName != "" || token != "" || len(r.Secrets) > 0 {
				t.Errorf("staging got %+v", r)
			}
		case "NodePublishVolume", "inline":
			secret := map[string]string{"NodePublishVolume": "s1", "inline": "s2"}[kind]
			if podName != n.PodName("app") || !strings.Contains(token, `"vault"`) || r.Secrets["key"] != secret ||
				r.VolumeContext["csi.storage.k8s.io/ephemeral"] != fmt.Sprint(kind == "inline") {
				t.Errorf("%s: the driver got %+v", kind, r)
			}
		default:
			continue
		}
		if !maps.Equal(r.PublishContext, want) || kind != "inline" && r.VolumeContext["color"] != "red" {
			t.Errorf("%s: the driver got %+v", kind, r)
		}
	}

	// After a restart the volumes are published again, as the driver wants, and stay.
	n.Restart()
	n.MustStillRun("app", app)
	n.MustStillRun(d.PodName(), driver)
	d.AwaitCalls("disk", "Stage", "Publish", "Publish")
	d.AwaitCalls(inline, "Publish", "Publish")
	n.MustContain(app, map[string]string{"cat /data/file": "kept"})

	// The pod is deleted while podstead is killed.
	pod := n.AwaitReady("app")
	n.Kill()
	a.Must("delete", "pod", n.PodName("app"), "--force", "--grace-period=0")
	n.MustStart()
	n.AwaitPodDirGone(pod)
	d.AwaitCalls("disk", "Unpublish", "Unstage")
	d.AwaitCalls(inline, "Unpublish")
	n.AwaitNoCSI()
	awaitVolumesInUse(a, n)
	n.MustHaveFile(filepath.Join(disk, "file"), "kept\n")
	if _, err := os.Stat(filepath.Join(d.Dir, "volumes", inline)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the inline volume is left: %v", err)
	}
}
