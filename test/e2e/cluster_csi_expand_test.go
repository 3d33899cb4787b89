package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// expand does what a resize controller does for a claim: it has expanded the volume, and leaves the file system to
// the node.
func (a *admin) expand(claim, volume, size string) {
	a.must("patch", "pvc", claim, "--type=merge", "-p", fmt.Sprintf(`{"spec": {"resources": {"requests": {"storage": "%s"}}}}`, size))
	a.must("patch", "pv", volume, "--type=merge", "-p", fmt.Sprintf(`{"spec": {"capacity": {"storage": "%s"}}}`, size))
	a.must("patch", "pvc", claim, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status": {"allocatedResources": {"storage": "%s"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}, "conditions": [{"type": "FileSystemResizePending", "status": "True"}]}}`, size))
}

// awaitClaimSize waits until the status of a claim has a capacity, a status of its expansion, and conditions with these words,
// in the order of their types.
func (a *admin) awaitClaimSize(n *node, claim, size string, status v1.ClaimResourceStatus, conditions ...string) {
	n.t.Helper()
	n.await(fmt.Sprintf("claim %s has %s", claim, size), func() error {
		c := &v1.PersistentVolumeClaim{}
		if err := a.get(c, "pvc", claim); err != nil {
			return err
		}
		var found []string
		for _, condition := range c.Status.Conditions {
			found = append(found, string(condition.Type)+condition.Message)
		}
		slices.Sort(found)
		same := len(found) == len(conditions) && c.Status.Capacity.Storage().Cmp(resource.MustParse(size)) == 0 &&
			c.Status.AllocatedResourceStatuses[v1.ResourceStorage] == status
		for i := range conditions {
			same = same && strings.Contains(found[i], conditions[i])
		}
		if !same {
			return fmt.Errorf("%+v", c.Status)
		}
		return nil
	})
}

// A volume that the cluster has expanded is expanded on the node while the pod runs, and when podstead starts. The claim gets
// its size then; what the driver refuses for good is left to the controllers, and stops nothing.
func TestClusterCSIExpansion(t *testing.T) {
	t.Parallel()
	n, c, a, d := newCSICluster(t)
	d.volume("disk")
	if err := c.StartController("persistentvolume-binder-controller"); err != nil {
		t.Fatal(err)
	}
	a.create("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nautomountServiceAccountToken: false\n---\n" +
		"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: manual}\nprovisioner: " + d.name + "\nallowVolumeExpansion: true\n---\n" +
		"apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: " + d.name + "}\nspec: {attachRequired: false}\n---\n" +
		secretOf("default", "expand", "e1") + "---\n" + clusterClaim("disk", "ReadWriteMany", "") + clusterVolume("disk", "ReadWriteMany", "disk",
		"csi: {driver: "+d.name+", volumeHandle: disk, nodeExpandSecretRef: {name: expand, namespace: default}}"))
	n.start()
	d.start()
	a.create(n.claimUser("app", "disk", "", ""))
	app := n.awaitRunning("app")
	d.awaitCalls("disk", "Stage", "Publish")

	// In use: the node notices the expansion by itself.
	a.expand("disk", "disk", "2Gi")
	d.awaitCalls("disk", "Stage", "Publish", "Expand")
	a.awaitClaimSize(n, "disk", "2Gi", "")
	n.awaitEvent("app", "FileSystemResizeSuccessful", `volume "data"`, "2147483648")
	calls := d.calls()
	if last := calls[len(calls)-1]; last.Method != "NodeExpandVolume" || last.Request.Secrets["key"] != "e1" {
		t.Errorf("the last call is %+v", last)
	}

	// While podstead is down.
	n.Kill()
	a.expand("disk", "disk", "3Gi")
	n.start()
	d.awaitCalls("disk", "Publish", "Expand", "Expand")
	a.awaitClaimSize(n, "disk", "3Gi", "")

	// The driver refuses it.
	n.Kill()
	d.set("fail/NodeExpandVolume", "OUT_OF_RANGE the disk has no room")
	a.expand("disk", "disk", "4Gi")
	n.start()
	a.awaitClaimSize(n, "disk", "3Gi", v1.PersistentVolumeClaimNodeResizeInfeasible, "FileSystemResizePending", "the disk has no room")
	n.awaitEvent("app", "VolumeResizeFailed", `volume "data"`, "the disk has no room")

	n.mustStillRun("app", app)
	pod := n.awaitReady("app")
	if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
		t.Errorf("the container was restarted %d times", restarts)
	}
	a.must("delete", "pod", n.PodName("app"), "--force", "--grace-period=0")
	n.awaitPodDirGone(pod)
	n.awaitNoCSI()
}
