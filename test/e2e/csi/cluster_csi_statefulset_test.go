package csi

import (
	"errors"
	"fmt"
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

// ledger is a StatefulSet whose replicas append their names to a file in their volumes. A replica terminates only after
// the file hold was removed from its volume.
const ledger = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ledger}
spec:
  serviceName: ledger
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: ledger}}
  template:
    metadata: {labels: {app: ledger}}
    spec:
      terminationGracePeriodSeconds: 600
      containers:
        - name: main
          image: IMAGE
          command: [sh, -c, "echo $NAME >> /data/journal; trap 'touch /data/terminating; while [ -e /data/hold ]; do sleep 0.1; done; exit 0' TERM; sleep 100000 & wait"]
          env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
          volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], storageClassName: manual, resources: {requests: {storage: 1Gi}}}
---
`

// csiReplica is a replica of a StatefulSet whose claim is bound to a volume of a CSI driver.
type csiReplica struct {
	name, volume, dir, uid string
	// lines is how many instances of the replica have started.
	lines int
}

// The replicas of a StatefulSet get volumes of a CSI driver that the cluster's controllers bind and attach, for whose
// attacher the test stands. A replica that was deleted and created again has its data again, also if podstead
// was killed while its container terminated or its volume was unpublished.
func TestClusterCSIStatefulSet(t *testing.T) {
	t.Parallel()
	n, c, a, d := newCSICluster(t)
	volumes := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nautomountServiceAccountToken: " +
		"false\n---\n" +
		"apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: " + d.Name +
		"}\nspec: {attachRequired: true}\n---\n" +
		"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: manual}\nprovisioner: " +
		"kubernetes.io/no-provisioner\nvolumeBindingMode: WaitForFirstConsumer\n---\n"
	for _, id := range []string{"disk-a", "disk-b"} {
		d.Volume(id)
		volumes += "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: " + id +
			"}\nspec: {accessModes: [ReadWriteOnce], storageClassName: manual, " +
			"capacity: {storage: 1Gi}, csi: {driver: " + d.Name + ", volumeHandle: " + id + "}}\n---\n"
	}
	a.Create(volumes)
	if err := errors.Join(c.StartController(
		"persistentvolume-binder-controller,persistentvolume-attach-detach-controller,statefulset-controller"),
		c.StartScheduler()); err != nil {
		t.Fatal(err)
	}
	n.MustStart()
	d.Start()
	a.AwaitNodeStatus(n, "it is ready", func(node *v1.Node) error {
		if !harness.NodeReady(node) {
			return fmt.Errorf("%v", node.Status.Conditions)
		}
		return nil
	})
	// Nothing removes the taint of a node that registers.
	a.Must("taint", "node", n.Name, "node.kubernetes.io/not-ready:NoSchedule-")
	a.Create(strings.ReplaceAll(ledger, "IMAGE", testbed.BusyboxImage))

	first, second := &csiReplica{name: "ledger-0"}, &csiReplica{name: "ledger-1"}
	awaitReplicas(a, n, d, first, second)
	if first.volume == second.volume {
		t.Fatalf("both replicas have volume %s", first.volume)
	}
	for _, r := range []*csiReplica{first, second} {
		d.MustHaveCalled(r.volume, "Stage", "Publish")
	}

	// The controller creates the pod again after its volume was unpublished and unstaged.
	a.Must("delete", "pod", first.name, "--wait=false")
	awaitReplicas(a, n, d, first)
	d.MustHaveCalled(first.volume, "Stage", "Publish", "Unpublish", "Unstage", "Stage", "Publish")

	// podstead is killed while the driver unpublishes the volume of one replica, and the container of the other one
	// terminates.
	hold := filepath.Join(second.dir, "hold")
	if err := os.WriteFile(hold, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d.Set("hang/NodeUnpublishVolume", "")
	a.Must("delete", "pod", first.name, second.name, "--wait=false")
	n.Await("the container terminates", func() error {
		_, err := os.Stat(filepath.Join(second.dir, "terminating"))
		return err
	})
	d.AwaitCalls(first.volume, "Stage", "Publish", "Unpublish")
	n.Kill()
	d.Unset("hang/NodeUnpublishVolume")
	n.MustStart()
	awaitReplicas(a, n, d, first)
	d.AwaitCalls(first.volume, "Stage", "Publish", "Unpublish", "Unpublish", "Unstage", "Stage", "Publish")
	d.MustHaveCalled(second.volume, "Stage", "Publish")
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	awaitReplicas(a, n, d, second)
	d.MustHaveCalled(second.volume, "Stage", "Publish", "Unpublish", "Unstage", "Stage", "Publish")

	// Nothing is in use or attached without pods, and the data stays.
	a.Must("scale", "statefulset", "ledger", "--replicas=0")
	for _, r := range []*csiReplica{first, second} {
		n.Await(r.name+" is deleted", func() error {
			if err := a.Get(&v1.Pod{}, "pod", r.name); err == nil || !strings.Contains(err.Error(), "NotFound") {
				return fmt.Errorf("it exists: %v", err)
			}
			return nil
		})
		d.AwaitCalls(r.volume, "Stage", "Publish", "Unpublish", "Unstage")
		awaitLines(n, filepath.Join(r.dir, "journal"), r.lines)
	}
	n.AwaitNoCSI()
	awaitVolumesInUse(a, n)
	n.Await("the volumes are detached", func() error {
		list := &storagev1.VolumeAttachmentList{}
		err := a.Get(list, "volumeattachments")
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%+v", list.Items)
		}
		return err
	})
}

// awaitReplicas waits until a new pod of each replica is ready with its volume, and attaches volumes meanwhile.
func awaitReplicas(a *harness.Admin, n *harness.Node, d *harness.CSIDriver, replicas ...*csiReplica) {
	n.T.Helper()
	for _, r := range replicas {
		r.lines++
		n.Await(fmt.Sprintf("%s runs in pod %d", r.name, r.lines), func() error {
			if err := attachVolumes(a); err != nil {
				return err
			}
			pod := &v1.Pod{}
			if err := a.Get(pod, "pod", r.name); err != nil {
				return err
			}
			if string(pod.UID) == r.uid {
				return errors.New("it is the same pod")
			}
			if err := harness.PodReady(pod); err != nil {
				return err
			}
			r.uid = string(pod.UID)
			return nil
		})
		if r.volume == "" {
			claim := &v1.PersistentVolumeClaim{}
			if err := a.Get(claim, "pvc", "data-"+r.name); err != nil {
				n.T.Fatal(err)
			}
			r.volume = claim.Spec.VolumeName
			r.dir = filepath.Join(d.Dir, "volumes", r.volume)
		}
		awaitLines(n, filepath.Join(r.dir, "journal"), r.lines)
		n.MustHaveFile(filepath.Join(r.dir, "journal"), strings.Repeat(r.name+"\n", r.lines))
	}
}

// attachVolumes does what the attacher of a driver does: it attaches what the controller of the cluster wants to be
// attached.
func attachVolumes(a *harness.Admin) error {
	list := &storagev1.VolumeAttachmentList{}
	if err := a.Get(list, "volumeattachments"); err != nil {
		return err
	}
	for _, attachment := range slices.DeleteFunc(list.Items,
		func(v storagev1.VolumeAttachment) bool { return v.Status.Attached }) {
		if _, err := a.Kubectl("patch", "volumeattachment", attachment.Name, "--subresource", "status", "--type=merge", "-p",
			`{"status": {"attached": true}}`); err != nil {
			return err
		}
	}
	return nil
}
