package volumes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// awaitVolumes waits until the PersistentVolumes have these phases and claims.
func awaitVolumes(n *harness.Node, want map[string]string) {
	n.T.Helper()
	n.Await(fmt.Sprintf("the PersistentVolumes are %v", want), func() error {
		body, err := n.Get(n.T.Context(), "/api/v1/persistentvolumes")
		var list v1.PersistentVolumeList
		if err == nil {
			err = json.Unmarshal(body, &list)
		}
		got := map[string]string{}
		for i := range list.Items {
			v := &list.Items[i]
			got[v.Name] = string(v.Status.Phase)
			if v.Spec.ClaimRef != nil {
				got[v.Name] += " " + v.Spec.ClaimRef.Name
			}
		}
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("they are %v", got)
		}
		return err
	})
}

const storageDocuments = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: ssd}
provisioner: podstead.io/directory
parameters: {path: %[1]s/ssd, mountPoint: %[1]s/ssd}
reclaimPolicy: Delete
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: large, labels: {disk: usb}}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 8Gi}
  storageClassName: usb
  local: {path: %[1]s/usb}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: small}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 2Gi}, storageClassName: usb, hostPath: {path: %[1]s/small, type: DirectoryOrCreate}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: share}
spec: {accessModes: [ReadWriteMany, ReadWriteOnce], capacity: {storage: 1Ti}, nfs: {server: files.example.com, path: /export}, mountOptions: [nfsvers=4.2]}
`

// Claims are bound to declared volumes and to directories on the disk of their class, which must be
// mounted. The bindings survive the daemon, and only Delete deletes.
func TestStorageClasses(t *testing.T) {
	example, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples", "storage", "ssd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		ssd, usb, small, journals := filepath.Join(n.Dir(), "ssd"), filepath.Join(n.Dir(), "usb"),
			filepath.Join(n.Dir(), "small"), filepath.Join(n.Dir(), "journals")
		for _, dir := range []string{ssd, usb, journals} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		mount(t, "tmpfs", usb)
		n.Args = []string{"--volume-stats-agg-period", "1s"}
		bin := filepath.Join(n.Dir(), "bin")
		n.Env = append(n.Env, "PATH="+bin+":"+os.Getenv("PATH"))
		harness.WriteAll(t, bin, map[string]string{"mount.nfs": "#!/bin/sh\nmount -t tmpfs none \"$2\" && echo \"$1 $3 " +
			"$4\" > \"$2/arguments\"\n"})
		if err := os.Chmod(filepath.Join(bin, "mount.nfs"), 0o755); err != nil {
			t.Fatal(err)
		}
		n.WriteManifest("example.yaml",
			strings.ReplaceAll(strings.ReplaceAll(string(example), "/mnt/ssd", filepath.Join(n.Dir(), "journals")), "ssd",
				"journals"))
		n.WriteManifest("storage.yaml", fmt.Sprintf(storageDocuments, n.Dir()))
		claims := map[string]string{
			"db":     harness.StorageClaim("db", "1Gi", "storageClassName: ssd"),
			"photos": harness.StorageClaim("photos", "1Gi", "storageClassName: usb"),
			"films":  harness.StorageClaim("films", "1Gi", "storageClassName: usb, selector: {matchLabels: {disk: usb}}"),
			"shared": harness.StorageClaim("shared", "1Gi", "volumeName: share, storageClassName: ''"),
		}
		for name, text := range claims {
			n.WriteManifest("claim-"+name+".yaml", text)
		}
		n.WriteManifest("fast.yaml", harness.ClaimPod("fast", "db"))
		n.WriteManifest("rest.yaml", harness.ClaimPod("rest", "photos", "films", "shared"))
		n.WriteManifest("waits.yaml", harness.ClaimPod("waits", "much")+
			harness.StorageClaim("much", "9Gi", "storageClassName: usb"))
		n.MustStart()
		rest := n.AwaitRunning("rest")
		n.MustContain(rest, map[string]string{
			"echo kept > /photos/file; echo kept > /films/file; cat /shared/arguments": "files.example.com:/export -o " +
				"nfsvers=4.2",
		})
		n.MustHaveFile(filepath.Join(small, "file"), "kept\n")
		n.MustHaveFile(filepath.Join(usb, "file"), "kept\n")
		n.AwaitWaiting("waits", "FailedMount", "PersistentVolumeClaim apps/much: is not bound",
			`StorageClass "usb" is in no manifest`, "small", "add a PersistentVolume of class \"usb\" with at least 9Gi")
		n.AwaitWaiting("fast", "FailedMount", "nothing is mounted on "+ssd)
		if entries, err := os.ReadDir(ssd); err != nil || len(entries) != 0 {
			t.Errorf("something was written below the mount point: %v %v", entries, err)
		}
		mount(t, "tmpfs", ssd)
		mount(t, "tmpfs", journals)
		fast := n.AwaitRunning("fast")
		n.MustContain(fast, map[string]string{
			"echo kept > /db/file; grep ' /db ' /proc/mounts | cut -d' ' -f3": "tmpfs",
		})
		n.MustHaveFile(filepath.Join(ssd, "apps/db/file"), "kept\n")
		n.AwaitReady("journal")
		n.Await("the pod of the example writes to its disk", func() error {
			_, err := os.Stat(filepath.Join(journals, "default/journal/journal"))
			return err
		})
		awaitClaimUsage(n, fast, rest)
		n.RemoveManifest("example.yaml")
		bound := map[string]string{"large": "Bound films", "small": "Bound photos", "share": "Bound shared",
			"apps.db": "Bound db", "default.journal": "Released journal"}
		awaitVolumes(n, bound)

		// The binding is on disk. A daemon that was killed and returns without the documents keeps it.
		n.Kill()
		n.RemoveManifest("storage.yaml")
		n.MustStart()
		n.MustStillRun("rest", rest)
		n.MustStillRun("fast", fast)
		n.WriteManifest("storage.yaml", fmt.Sprintf(storageDocuments, n.Dir()))
		awaitVolumes(n, bound)
		out := n.CLI(0, []string{"apps.db", "ssd", filepath.Join(ssd, "apps/db"), "files.example.com:/export", "apps/rest"},
			"volumes")
		if strings.Count(out, "\n") != 6 {
			t.Errorf("podstead volumes printed\n%s", out)
		}
		n.CLI(0, []string{"ssd", "podstead.io/directory", "Delete"}, "get", "sc")
		n.CLI(0, []string{"db", "Bound", "apps.db", "much", "Pending"}, "get", "pvc", "-A")

		// What would bind the waiting claim does.
		n.WriteManifest("huge.yaml", fmt.Sprintf("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: huge}\n"+
			"spec: {accessModes: [ReadWriteOnce], capacity: {storage: 9Gi}, storageClassName: usb, hostPath: {path: %s/huge, "+
			"type: DirectoryOrCreate}}\n", n.Dir()))
		n.AwaitRunning("waits")

		// The claims are removed: Delete deletes, Retain keeps and reserves.
		p, q := n.AwaitReady("fast"), n.AwaitReady("rest")
		n.RemoveManifest("fast.yaml")
		n.RemoveManifest("rest.yaml")
		for name := range claims {
			n.RemoveManifest("claim-" + name + ".yaml")
		}
		n.AwaitPodDirGone(p)
		n.AwaitPodDirGone(q)
		awaitVolumes(n, map[string]string{"large": "Released films", "small": "Released photos", "share": "Released shared",
			"huge": "Bound much", "default.journal": "Released journal"})
		if _, err := os.Stat(filepath.Join(ssd, "apps/db")); !os.IsNotExist(err) {
			t.Errorf("the volume of the class with Delete still exists: %v", err)
		}
		n.MustHaveFile(filepath.Join(usb, "file"), "kept\n")
		n.MustHaveFile(filepath.Join(small, "file"), "kept\n")
		n.CLI(0, []string{"volume apps/photos unbound; its data stays"}, "volumes", "rm", "apps/photos")
		awaitVolumes(n, map[string]string{"large": "Released films", "small": "Available", "share": "Released shared",
			"huge": "Bound much", "default.journal": "Released journal"})
		n.MustHaveFile(filepath.Join(small, "file"), "kept\n")
	})
}

// awaitClaimUsage writes to a claim that is a directory, to one that is a file system of its own,
// and to a network file system, and waits until the summary, the metrics and the command show what they contain.
func awaitClaimUsage(n *harness.Node, fast, rest harness.Instance) {
	n.T.Helper()
	write := func(i harness.Instance, path string, megabytes int) (capacity float64) {
		n.T.Helper()
		n.Exec(i, "sh", "-c", fmt.Sprintf("dd if=/dev/zero of=%s/data bs=1048576 count=%d 2>/dev/null", path, megabytes))
		blocks, err := strconv.ParseFloat(n.Exec(i, "sh", "-c", "df -P -k "+path+" | tail -n1 | awk '{print $2}'"), 64)
		if err != nil {
			n.T.Fatal(err)
		}
		return blocks * 1024
	}
	const mega = 1 << 20
	claims := []struct {
		pod, claim     string
		used, capacity float64
	}{
		{"fast", "db", 4 * mega, write(fast, "/db", 4)},
		{"rest", "films", 3 * mega, write(rest, "/films", 3)},
		{"rest", "shared", 2 * mega, write(rest, "/shared", 2)},
	}
	n.Await("the usage of claims", func() error {
		all := n.Figures("/stats/summary")
		body, err := n.Get(n.T.Context(), "/metrics")
		if err != nil {
			return err
		}
		for _, c := range claims {
			volume := all.At("pods", n.PodName(c.pod), "volume", c.claim)
			if ref := volume.At("pvcRef", "name").Value; ref != c.claim {
				return fmt.Errorf("pvcRef of %s is %v", c.claim, ref)
			}
			metric := func(name string) (value float64) {
				_, after, _ := strings.Cut(string(body),
					fmt.Sprintf("kubelet_volume_stats_%s_bytes{namespace=\"apps\",persistentvolumeclaim=%q} ", name, c.claim))
				value, _ = strconv.ParseFloat(after[:max(strings.IndexByte(after, '\n'), 0)], 64)
				return value
			}
			for where, used := range map[string]float64{"summary": volume.At("usedBytes").Number(), "metrics": metric("used")} {
				if used < c.used || used > c.used+mega/2 {
					return fmt.Errorf("%s: %s uses %.0f", where, c.claim, used)
				}
			}
			for where, capacity := range map[string]float64{"summary": volume.At("capacityBytes").Number(),
				"metrics": metric("capacity")} {
				if capacity != c.capacity {
					return fmt.Errorf("%s: %s has capacity %.0f, want %.0f", where, c.claim, capacity, c.capacity)
				}
			}
		}
		return nil
	})
	n.CLI(0, []string{"ENFORCED", " no ", "USED", "4.0 MiB", "3.0 MiB", "2.0 MiB"}, "volumes")
}
