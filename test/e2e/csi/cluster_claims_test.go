package csi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// clusterClaim is a claim of class manual; more are further fields of its spec.
func clusterClaim(name, mode, more string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: %s}\nspec: {accessModes: [%s], "+
		"storageClassName: manual, resources: {requests: {storage: 1Gi}}%s}\n---\n", name, mode, more)
}

// clusterVolume is a PersistentVolume of class manual with this source, reserved for a claim.
func clusterVolume(name, mode, claim, source string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: %s}\nspec: {accessModes: [%s], "+
		"storageClassName: manual, capacity: {storage: 1Gi}, "+
		"claimRef: {namespace: default, name: %s}, %s}\n---\n", name, mode, claim, source)
}

// onHost is the affinity of a volume to nodes with a label.
func onHost(key, value string) string {
	return fmt.Sprintf("nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: %s, operator: In, "+
		"values: [%s]}]}]}}", key, value)
}

// claimUser is a pod of the cluster that mounts a claim on /data.
func claimUser(n *harness.Node, name, claim, spec, mounts string) string {
	return n.ClusterPod(name, testbed.BusyboxImage,
		fmt.Sprintf("volumes: [{name: data, persistentVolumeClaim: {claimName: %s}}]\n", claim)+spec,
		"volumeMounts: [{name: data, mountPath: /data}"+mounts+"]\n")
}

// awaitLines waits until a file of the host has a number of lines.
func awaitLines(n *harness.Node, path string, want int) {
	n.T.Helper()
	n.Await(fmt.Sprintf("%s has %d lines", path, want), func() error {
		text, err := os.ReadFile(path)
		if got := strings.Count(string(text), "\n"); err == nil && got != want {
			err = fmt.Errorf("it has %d", got)
		}
		return err
	})
}

// awaitPodUID waits until a pod is ready in the API that has another UID, and returns its UID.
func awaitPodUID(a *harness.Admin, n *harness.Node, name, other string) (uid string) {
	n.T.Helper()
	n.Await(name+" is ready and another pod", func() error {
		pod := &v1.Pod{}
		if err := a.Get(pod, "pod", name); err != nil {
			return err
		}
		if uid = string(pod.UID); uid == other {
			return errors.New("it is the same")
		}
		return harness.PodReady(pod)
	})
	return uid
}

// The pods of a cluster use the PersistentVolumes to which the cluster's controllers have bound their
// claims, and wait with the reason until then. The StatefulSet of docs/cluster-storage.md has its data again
// after its pod was deleted, also while podstead was killed, and nothing is deleted here.
func TestClusterClaims(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	c, a, kubeconfig := harness.NewCluster(t.Context(), n)
	bin := filepath.Join(n.Dir(), "bin")
	harness.WriteAll(t, bin, map[string]string{"mount.nfs": "#!/bin/sh\nmount -t tmpfs none \"$2\" && echo \"$1 $3 $4\" " +
		"> \"$2/arguments\"\n"})
	if err := os.Chmod(filepath.Join(bin, "mount.nfs"), 0o755); err != nil {
		t.Fatal(err)
	}
	ssd, disk := filepath.Join(n.Dir(), "ssd"), filepath.Join(n.Dir(), "disk")
	for _, dir := range []string{ssd + "/claims", disk} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.Env = append(n.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	n.OwnPort()
	a.Create("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nautomountServiceAccountToken: false\n")

	// No controller runs yet. A claim that names the volume of another one does not get it.
	a.Create(clusterClaim("thief", "ReadWriteOnce", ", volumeName: taken") +
		clusterVolume("taken", "ReadWriteOnce", "owner", "hostPath: {path: "+disk+"}") +
		claimUser(n, "thief", "thief", "", ""))
	a.Must("patch", "pvc", "thief", "--subresource", "status", "--type=merge", "-p", `{"status": {"phase": "Bound"}}`)
	n.MustStart()
	n.AwaitWaiting("thief", "FailedMount", "PersistentVolumeClaim default/thief: PersistentVolume taken",
		"unless its spec.claimRef names this claim")
	a.Must("delete", "pod", n.PodName("thief"), "--wait=false")
	a.Must("delete", "pvc", "thief", "--wait=false")

	// What a pod waits for is reported, until the cluster has bound its claim.
	a.Create(claimUser(n, "share", "share", "", ", {name: data, mountPath: /readonly, readOnly: true}"))
	n.AwaitEvent("share", "FailedMount",
		`MountVolume.SetUp failed for volume "data" : PersistentVolumeClaim default/share: does not exist in the cluster; create it`)
	a.Create(clusterClaim("share", "ReadWriteMany", ""))
	n.AwaitEvent("share", "FailedMount", "default/share: is not bound to a PersistentVolume in the cluster; kubectl -n "+
		"default describe pvc share says why")
	awaitClusterVolume(n, "share", "Waiting",
		n.PodName("share")+" waits: is not bound to a PersistentVolume in the cluster")
	a.AwaitMirror(n, "it is waiting in the API", "default", "share", func(p *v1.Pod) error {
		st := p.Status
		if st.Reason != "FailedMount" || !strings.Contains(st.Message, "is not bound") || len(st.ContainerStatuses) != 1 ||
			st.ContainerStatuses[0].State.Waiting.Reason != "ContainerCreating" {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	if err := c.StartController(
		"persistentvolume-binder-controller,ephemeral-volume-controller,statefulset-controller"); err != nil {
		t.Fatal(err)
	}
	a.Create(strings.Replace(clusterVolume("share", "ReadWriteMany", "share",
		"nfs: {server: files.example.com, path: /export}, mountOptions: [nfsvers=4.2, noatime]"),
		"{name: share}", "{name: share, annotations: {pv.beta.kubernetes.io/gid: '3456'}}", 1))
	share := n.AwaitRunning("share")
	n.MustContain(share, map[string]string{
		"cat /data/arguments":                             "files.example.com:/export -o nfsvers=4.2,noatime",
		"touch /readonly/x 2>/dev/null || echo read-only": "read-only",
	})

	// One pod at a time uses a claim of ReadWriteOncePod. The volume gets the pod's group.
	rwop := clusterVolume("disk", "ReadWriteOncePod", "disk",
		"local: {path: "+disk+"}, "+onHost("kubernetes.io/hostname", n.Name))
	a.Create(clusterClaim("disk", "ReadWriteOncePod", "") + rwop)
	a.Create(claimUser(n, "first", "disk", "securityContext: {runAsUser: 1000, fsGroup: 2345}\n",
		", {name: data, mountPath: /part, subPath: a/b}"))
	first := n.AwaitRunning("first")
	n.MustContain(first, map[string]string{
		"stat -c %g /data": "2345", "echo kept > /part/file; cat /data/a/b/file": "kept",
	})
	n.MustHaveFile(filepath.Join(disk, "a/b/file"), "kept\n")
	n.Await("the metrics and the summary have the usage of the claim", func() error {
		body, err := n.Get(t.Context(), "/metrics")
		if err == nil && !strings.Contains(string(body),
			`kubelet_volume_stats_capacity_bytes{namespace="default",persistentvolumeclaim="disk"} `) {
			err = errors.New("no metric")
		}
		if ref := n.Figures("/stats/summary").At("pods", n.PodName("first"), "volume", "data").At("pvcRef",
			"name").Value; err == nil && ref != "disk" {
			err = fmt.Errorf("pvcRef is %v", ref)
		}
		return err
	})
	a.Create(claimUser(n, "second", "disk", "", ""))
	n.AwaitWaiting("second", "FailedMount", "default/disk: access mode is ReadWriteOncePod", "uses it")
	awaitClusterVolume(n, "disk", "default/"+n.PodName("first"), disk, "local", "Waiting",
		n.PodName("second")+" waits: access mode is ReadWriteOncePod")

	// A block device. The pod's container is not privileged.
	image := filepath.Join(n.Dir(), "disk.img")
	if err := os.WriteFile(image, append([]byte("from the host\n"), make([]byte, 8<<20-14)...), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Create(clusterClaim("raw", "ReadWriteOnce", ", volumeMode: Block") + clusterVolume("raw", "ReadWriteOnce", "raw",
		"volumeMode: Block, local: {path: "+harness.LoopDevice(t, image)+"}, "+onHost("kubernetes.io/hostname", n.Name)) +
		n.ClusterPod("raw", testbed.BusyboxImage, "volumes: [{name: disk, persistentVolumeClaim: {claimName: raw}}]\n",
			"volumeDevices: [{name: disk, devicePath: /dev/disk}]\n"))
	n.MustContain(n.AwaitRunning("raw"), map[string]string{"head -n1 /dev/disk": "from the host"})
	a.Must("delete", "pod", n.PodName("raw"), "--wait=false")
	a.AwaitMirrorGone(n, "default", "raw")

	// Another node's volume, and the claim of a generic ephemeral volume.
	a.Create(clusterClaim("away", "ReadWriteOnce", "") +
		clusterVolume("away", "ReadWriteOnce", "away", "local: {path: "+disk+"}, "+onHost("rack", "r2")) +
		"---\n" + claimUser(n, "away", "away", "", ""))
	n.AwaitWaiting("away", "FailedMount", "PersistentVolume away is not for this node", "rack In r2")
	a.Create(clusterVolume("scratch", "ReadWriteOnce", n.PodName("scratch")+"-data",
		"hostPath: {path: "+filepath.Join(n.Dir(), "scratch")+", type: DirectoryOrCreate}") +
		n.ClusterPod("scratch", testbed.BusyboxImage, "volumes: [{name: data, ephemeral: {volumeClaimTemplate: {spec: "+
			"{accessModes: [ReadWriteOnce], storageClassName: manual, resources: {requests: {storage: 1Gi}}}}}}]\n",
			"volumeMounts: [{name: data, mountPath: /data}]\n"))
	n.MustContain(n.AwaitRunning("scratch"), map[string]string{"echo some > /data/file; cat /data/file": "some"})
	n.MustHaveFile(filepath.Join(n.Dir(), "scratch/file"), "some\n")

	// The StatefulSet of the page. Nothing removes the taint of a node that registers.
	if err := c.StartScheduler(); err != nil {
		t.Fatal(err)
	}
	a.AwaitNodeStatus(n, "it is ready", func(node *v1.Node) error {
		if !harness.NodeReady(node) {
			return fmt.Errorf("%v", node.Status.Conditions)
		}
		return nil
	})
	a.Must("taint", "node", n.Name, "node.kubernetes.io/not-ready:NoSchedule-")
	documents := harness.PageDocuments(t, "cluster-storage.md", "A StatefulSet's claim on a joined node")
	if len(documents) != 1 {
		t.Fatalf("docs/cluster-storage.md has %d blocks", len(documents))
	}
	a.Create(strings.NewReplacer("/mnt/ssd", ssd, "[edge]", "["+n.Name+"]").Replace(documents[0]))
	journal := filepath.Join(ssd, "claims/journal")
	uid := awaitPodUID(a, n, "journal-0", "")
	awaitLines(n, journal, 1)
	a.Must("delete", "pod", "journal-0", "--wait=false")
	uid = awaitPodUID(a, n, "journal-0", uid)
	awaitLines(n, journal, 2)

	// While podstead is killed, a pod is deleted and others keep running with their volumes.
	n.Kill()
	a.Must("delete", "pod", "journal-0", "--wait=false")
	n.MustStart()
	uid = awaitPodUID(a, n, "journal-0", uid)
	awaitLines(n, journal, 3)
	n.MustStillRun("share", share)
	n.MustStillRun("first", first)
	n.AwaitWaiting("second", "FailedMount", "default/disk: access mode is ReadWriteOncePod")
	pod := n.AwaitReady("share")
	events, err := n.Events("share")
	if e := events["FailedMount"]; err != nil || strings.Contains(e.Message, "has not answered yet") {
		t.Errorf("event of a pod that runs: %v %v", e, err)
	}
	if got := n.MountsOf(string(pod.UID)); len(got) != 1 {
		t.Errorf("mounted %v, want one mount", got)
	}

	// A pod is removed from the API after its volumes are unmounted. The next pod has the claim then.
	a.Must("delete", "pod", n.PodName("share"), "--wait=false", "--grace-period=1")
	a.AwaitMirrorGone(n, "default", "share")
	if got := n.MountsOf(string(pod.UID)); len(got) != 0 {
		t.Errorf("the pod is not in the API any more, and has mounts: %v", got)
	}
	a.Must("delete", "pod", n.PodName("first"), "--wait=false")
	second := n.AwaitRunning("second")
	n.MustContain(second, map[string]string{"cat /data/a/b/file": "kept"})

	// The node leaves: the pods are evicted, and their data stays. It joins again, and the StatefulSet
	// has its data.
	a.Must("delete", "pod", n.PodName("away"), "--wait=false")
	n.CLI(0, []string{"removed from its cluster"}, "cluster", "leave")
	n.AwaitGone("second")
	n.MustHaveFile(filepath.Join(disk, "a/b/file"), "kept\n")
	n.MustHaveFile(filepath.Join(n.Dir(), "scratch/file"), "some\n")
	awaitLines(n, journal, 3)
	n.Restart()
	a.Must("uncordon", n.Name)
	awaitPodUID(a, n, "journal-0", uid)
	awaitLines(n, journal, 4)
}
