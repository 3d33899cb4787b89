package e2e

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
	volumes := "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nautomountServiceAccountToken: false\n---\n" +
		"apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: " + d.name + "}\nspec: {attachRequired: true}\n---\n" +
		"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: manual}\nprovisioner: kubernetes.io/no-provisioner\nvolumeBindingMode: WaitForFirstConsumer\n---\n"
	for _, id := range []string{"disk-a", "disk-b"} {
		d.volume(id)
		volumes += "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: " + id + "}\nspec: {accessModes: [ReadWriteOnce], storageClassName: manual, " +
			"capacity: {storage: 1Gi}, csi: {driver: " + d.name + ", volumeHandle: " + id + "}}\n---\n"
	}
	a.create(volumes)
	if err := errors.Join(c.StartController("persistentvolume-binder-controller,persistentvolume-attach-detach-controller,statefulset-controller"), c.StartScheduler()); err != nil {
		t.Fatal(err)
	}
	n.start()
	d.start()
	a.awaitNodeStatus(n, "it is ready", func(node *v1.Node) error {
		if !nodeReady(node) {
			return fmt.Errorf("%v", node.Status.Conditions)
		}
		return nil
	})
	// Nothing removes the taint of a node that registers.
	a.must("taint", "node", n.Name, "node.kubernetes.io/not-ready:NoSchedule-")
	a.create(strings.ReplaceAll(ledger, "IMAGE", testbed.BusyboxImage))

	first, second := &csiReplica{name: "ledger-0"}, &csiReplica{name: "ledger-1"}
	a.awaitReplicas(n, d, first, second)
	if first.volume == second.volume {
		t.Fatalf("both replicas have volume %s", first.volume)
	}
	for _, r := range []*csiReplica{first, second} {
		d.mustHaveCalled(r.volume, "Stage", "Publish")
	}

	// The controller creates the pod again after its volume was unpublished and unstaged.
	a.must("delete", "pod", first.name, "--wait=false")
	a.awaitReplicas(n, d, first)
	d.mustHaveCalled(first.volume, "Stage", "Publish", "Unpublish", "Unstage", "Stage", "Publish")

	// podstead is killed while the driver unpublishes the volume of one replica, and the container of the other one
	// terminates.
	hold := filepath.Join(second.dir, "hold")
	if err := os.WriteFile(hold, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d.set("hang/NodeUnpublishVolume", "")
	a.must("delete", "pod", first.name, second.name, "--wait=false")
	n.await("the container terminates", func() error {
		_, err := os.Stat(filepath.Join(second.dir, "terminating"))
		return err
	})
	d.awaitCalls(first.volume, "Stage", "Publish", "Unpublish")
	n.Kill()
	d.unset("hang/NodeUnpublishVolume")
	n.start()
	a.awaitReplicas(n, d, first)
	d.awaitCalls(first.volume, "Stage", "Publish", "Unpublish", "Unpublish", "Unstage", "Stage", "Publish")
	d.mustHaveCalled(second.volume, "Stage", "Publish")
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	a.awaitReplicas(n, d, second)
	d.mustHaveCalled(second.volume, "Stage", "Publish", "Unpublish", "Unstage", "Stage", "Publish")

	// Nothing is in use or attached without pods, and the data stays.
	a.must("scale", "statefulset", "ledger", "--replicas=0")
	for _, r := range []*csiReplica{first, second} {
		n.await(r.name+" is deleted", func() error {
			if err := a.get(&v1.Pod{}, "pod", r.name); err == nil || !strings.Contains(err.Error(), "NotFound") {
				return fmt.Errorf("it exists: %v", err)
			}
			return nil
		})
		d.awaitCalls(r.volume, "Stage", "Publish", "Unpublish", "Unstage")
		n.awaitLines(filepath.Join(r.dir, "journal"), r.lines)
	}
	n.awaitNoCSI()
	a.awaitVolumesInUse(n)
	n.await("the volumes are detached", func() error {
		list := &storagev1.VolumeAttachmentList{}
		err := a.get(list, "volumeattachments")
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%+v", list.Items)
		}
		return err
	})
}

// awaitReplicas waits until a new pod of each replica is ready with its volume, and attaches volumes meanwhile.
func (a *admin) awaitReplicas(n *node, d *csiDriver, replicas ...*csiReplica) {
	n.t.Helper()
	for _, r := range replicas {
		r.lines++
		n.await(fmt.Sprintf("%s runs in pod %d", r.name, r.lines), func() error {
			if err := a.attachVolumes(); err != nil {
				return err
			}
			pod := &v1.Pod{}
			if err := a.get(pod, "pod", r.name); err != nil {
				return err
			}
			if string(pod.UID) == r.uid {
				return errors.New("it is the same pod")
			}
			if err := podReady(pod); err != nil {
				return err
			}
			r.uid = string(pod.UID)
			return nil
		})
		if r.volume == "" {
			claim := &v1.PersistentVolumeClaim{}
			if err := a.get(claim, "pvc", "data-"+r.name); err != nil {
				n.t.Fatal(err)
			}
			r.volume = claim.Spec.VolumeName
			r.dir = filepath.Join(d.dir, "volumes", r.volume)
		}
		n.awaitLines(filepath.Join(r.dir, "journal"), r.lines)
		n.mustHaveFile(filepath.Join(r.dir, "journal"), strings.Repeat(r.name+"\n", r.lines))
	}
}

// attachVolumes does what the attacher of a driver does: it attaches what the controller of the cluster wants to be attached.
func (a *admin) attachVolumes() error {
	list := &storagev1.VolumeAttachmentList{}
	if err := a.get(list, "volumeattachments"); err != nil {
		return err
	}
	for _, attachment := range slices.DeleteFunc(list.Items, func(v storagev1.VolumeAttachment) bool { return v.Status.Attached }) {
		if _, err := a.kubectl("patch", "volumeattachment", attachment.Name, "--subresource", "status", "--type=merge", "-p", `{"status": {"attached": true}}`); err != nil {
			return err
		}
	}
	return nil
}
