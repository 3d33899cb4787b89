package csi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/test/e2e/harness"
)

// expand does what a resize controller does for a claim: it has expanded the volume, and leaves the file system to
// the node.
func expand(a *harness.Admin, claim, volume, size string) {
	a.Must("patch", "pvc", claim, "--type=merge", "-p",
		fmt.Sprintf(`{"spec": {"resources": {"requests": {"storage": "%s"}}}}`, size))
	a.Must("patch", "pv", volume, "--type=merge", "-p", fmt.Sprintf(`{"spec": {"capacity": {"storage": "%s"}}}`, size))
	a.Must("patch", "pvc", claim, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status": {"allocatedResources": {"storage": "%s"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}, "conditions": [{"type": "FileSystemResizePending", "status": "True"}]}}`, size))
}

// awaitClaimSize waits until the status of a claim has a capacity, a status of its expansion, and conditions with these
// words, in the order of their types.
func awaitClaimSize(a *harness.Admin, n *harness.Node, claim, size string, status v1.ClaimResourceStatus,
	conditions ...string) {
	n.T.Helper()
	n.Await(fmt.Sprintf("claim %s has %s", claim, size), func() error {
		c := &v1.PersistentVolumeClaim{}
		if err := a.Get(c, "pvc", claim); err != nil {
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

// A volume that the cluster has expanded is expanded on the node while the pod runs, and when podstead starts. The
// claim gets its size then; what the driver refuses for good is left to the controllers, and stops nothing.
func TestClusterCSIExpansion(t *testing.T) {
	t.Parallel()
	n, c, a, d := newCSICluster(t)
	d.Volume("disk")
	if err := c.StartController("persistentvolume-binder-controller"); err != nil {
		t.Fatal(err)
	}
	a.Create(
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nautomountServiceAccountToken: false\n---\n" +
			"apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: manual}\nprovisioner: " + d.Name +
			"\nallowVolumeExpansion: true\n---\n" +
			"apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: " + d.Name +
			"}\nspec: {attachRequired: false}\n---\n" +
			secretOf("default", "expand", "e1") + "---\n" + clusterClaim("disk", "ReadWriteMany", "") +
			clusterVolume("disk", "ReadWriteMany", "disk",
				"csi: {driver: "+d.Name+", volumeHandle: disk, nodeExpandSecretRef: {name: expand, namespace: default}}"))
	n.MustStart()
	d.Start()
	a.Create(claimUser(n, "app", "disk", "", ""))
	app := n.AwaitRunning("app")
	d.AwaitCalls("disk", "Stage", "Publish")

	// In use: the node notices the expansion by itself.
	expand(a, "disk", "disk", "2Gi")
	d.AwaitCalls("disk", "Stage", "Publish", "Expand")
	awaitClaimSize(a, n, "disk", "2Gi", "")
	n.AwaitEvent("app", "FileSystemResizeSuccessful", `volume "data"`, "2147483648")
	calls := d.Calls()
	if last := calls[len(calls)-1]; last.Method != "NodeExpandVolume" || last.Request.Secrets["key"] != "e1" {
		t.Errorf("the last call is %+v", last)
	}

	// While podstead is down.
	n.Kill()
	expand(a, "disk", "disk", "3Gi")
	n.MustStart()
	d.AwaitCalls("disk", "Publish", "Expand", "Expand")
	awaitClaimSize(a, n, "disk", "3Gi", "")

	// The driver refuses it.
	n.Kill()
	d.Set("fail/NodeExpandVolume", "OUT_OF_RANGE the disk has no room")
	expand(a, "disk", "disk", "4Gi")
	n.MustStart()
	awaitClaimSize(a, n, "disk", "3Gi", v1.PersistentVolumeClaimNodeResizeInfeasible, "FileSystemResizePending",
		"the disk has no room")
	n.AwaitEvent("app", "VolumeResizeFailed", `volume "data"`, "the disk has no room")

	n.MustStillRun("app", app)
	pod := n.AwaitReady("app")
	if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
		t.Errorf("the container was restarted %d times", restarts)
	}
	a.Must("delete", "pod", n.PodName("app"), "--force", "--grace-period=0")
	n.AwaitPodDirGone(pod)
	n.AwaitNoCSI()
}
