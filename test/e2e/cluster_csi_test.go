package e2e

import (
	"crypto/sha256"
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

	"github.com/podstead/podstead/test/testbed"
)

// attachment returns the object that the attach-detach controller makes for a volume on the node.
func (d *csiDriver) attachment(volume string) (name, text string) {
	// The name is part of the API between the controller and the kubelet.
	name = fmt.Sprintf("csi-%x", sha256.Sum256([]byte(volume+d.name+d.n.Name)))
	return name, fmt.Sprintf("apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {name: %s}\n"+
		"spec: {attacher: %s, nodeName: %s, source: {persistentVolumeName: %s}}\n", name, d.name, d.n.Name, volume)
}

// newCSICluster returns a node that has not started yet, the cluster that it joins, and a CSI driver of the node.
func newCSICluster(t *testing.T) (*node, *testbed.Cluster, *admin, *csiDriver) {
	t.Helper()
	n := newNode(t, sharedRuntime(t, testbed.Containerd24))
	c, a, kubeconfig := newCluster(t.Context(), n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	n.ownPort()
	return n, c, a, n.newCSIDriver("disk")
}

// awaitVolumesInUse waits until the Node object has these volumes in use.
func (a *admin) awaitVolumesInUse(n *node, want ...v1.UniqueVolumeName) {
	n.t.Helper()
	a.awaitNodeStatus(n, fmt.Sprintf("the volumes in use are %v", want), func(node *v1.Node) error {
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
	d.set("without/VOLUME_MOUNT_GROUP", "")
	disk := d.volume("disk")
	if err := c.StartController("persistentvolume-binder-controller"); err != nil {
		t.Fatal(err)
	}
	a.create("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nautomountServiceAccountToken: false\n---\n" +
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
`, d.name) + clusterClaim("disk", "ReadWriteMany", "") + clusterVolume("disk", "ReadWriteMany", "disk", "mountOptions: [noatime], csi: {driver: "+d.name+
		", volumeHandle: disk, volumeAttributes: {color: red}, nodePublishSecretRef: {name: disk, namespace: storage}}"))
	n.start()
	driver := d.start()

	// The driver is in the CSINode object, by which the attacher knows the node.
	n.await("the CSINode object has the driver", func() error {
		node := &storagev1.CSINode{}
		if err := a.get(node, "csinode", n.Name); err != nil {
			return err
		}
		if len(node.Spec.Drivers) != 1 || node.Spec.Drivers[0].Name != d.name || node.Spec.Drivers[0].NodeID != "test-node" {
			return fmt.Errorf("%+v", node.Spec.Drivers)
		}
		return nil
	})

	a.create(n.clusterPod("app", testbed.BusyboxImage, fmt.Sprintf(`serviceAccountName: default
securityContext: {fsGroup: 2345}
volumes:
- {name: data, persistentVolumeClaim: {claimName: disk}}
- {name: inline, csi: {driver: %s, volumeAttributes: {class: fast}, nodePublishSecretRef: {name: inline}}}
`, d.name), "volumeMounts: [{name: data, mountPath: /data}, {name: inline, mountPath: /inline}]\n"))
	n.awaitWaiting("app", "FailedMount", "PersistentVolume disk", "attach")
	n.awaitClusterVolume("disk", "1Gi", d.name+":disk", "csi", "Waiting", n.PodName("app")+" waits: PersistentVolume disk: ", "VolumeAttachment")
	name, attachment := d.attachment("disk")
	a.create(attachment)
	a.must("patch", "volumeattachment", name, "--subresource", "status", "--type=merge", "-p", `{"status": {"attached": true, "attachmentMetadata": {"device": "sdb"}}}`)
	n.awaitWaiting("app", "FailedMount", "PersistentVolume disk", "status.volumesAttached")
	a.must("patch", "node", n.Name, "--subresource", "status", "--type=merge", "-p",
		fmt.Sprintf(`{"status": {"volumesAttached": [{"name": "kubernetes.io/csi/%s^disk", "devicePath": ""}]}}`, d.name))
	app := n.awaitRunning("app")
	n.awaitClusterVolume("disk", "default/"+n.PodName("app"), d.name+":disk", "Bound")
	n.mustContain(app, map[string]string{
		"echo kept > /data/file; cat /data/file; stat -c %g /data":    "kept\n2345",
		"grep -o ' /data [^ ]* [^ ]*' /proc/mounts | grep -c noatime": "1",
		"cat /inline/class": "fast",
	})
	n.mustHaveFile(filepath.Join(disk, "file"), "kept\n")
	a.awaitVolumesInUse(n, v1.UniqueVolumeName("kubernetes.io/csi/"+d.name+"^disk"))
	var inline string
	for _, call := range d.calls() {
		r := call.Request
		podName, token := r.VolumeContext["csi.storage.k8s.io/pod.name"], r.VolumeContext["csi.storage.k8s.io/serviceAccount.tokens"]
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
	n.restart()
	n.mustStillRun("app", app)
	n.mustStillRun(d.podName(), driver)
	d.awaitCalls("disk", "Stage", "Publish", "Publish")
	d.awaitCalls(inline, "Publish", "Publish")
	n.mustContain(app, map[string]string{"cat /data/file": "kept"})

	// The pod is deleted while podstead is killed.
	pod := n.awaitReady("app")
	n.Kill()
	a.must("delete", "pod", n.PodName("app"), "--force", "--grace-period=0")
	n.start()
	n.awaitPodDirGone(pod)
	d.awaitCalls("disk", "Unpublish", "Unstage")
	d.awaitCalls(inline, "Unpublish")
	n.awaitNoCSI()
	a.awaitVolumesInUse(n)
	n.mustHaveFile(filepath.Join(disk, "file"), "kept\n")
	if _, err := os.Stat(filepath.Join(d.dir, "volumes", inline)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the inline volume is left: %v", err)
	}
}
