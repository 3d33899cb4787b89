package csi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A driver that hangs or fails delays only the pods with its volumes. A driver that was killed between
// staging and publishing, a podstead that was killed while the driver unpublished, and a driver that leaves
// its mounts leave nothing behind, and delete nothing.
func TestCSIFaults(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		d, slow := n.NewCSIDriver("disk"), n.NewCSIDriver("slow")
		data := d.Volume("data")
		slow.Volume("late")
		n.MustStart()
		driver := d.Start()
		slow.Start()

		slow.Set("hang/NodeStageVolume", "")
		n.WriteManifest("late.yaml", harness.ClaimPod("late", "late")+slow.CSIVolume("late", "", ""))
		slow.AwaitCalls("late", "Stage")
		d.Set("hang/NodePublishVolume", "")
		n.WriteManifest("data.yaml", d.CSIVolume("data", "", ""))
		n.WriteManifest("app.yaml", harness.ClaimPod("app", "data"))
		d.AwaitCalls("data", "Stage", "Publish")
		n.WriteManifest("plain.yaml", harness.ClaimPod("plain", "own")+harness.StorageClaim("own", "1Gi", ""))
		n.AwaitRunning("plain")

		// The driver is killed before it has published. The call that hangs must not publish either.
		d.Set("fail/NodePublishVolume", "INTERNAL the disk is locked")
		d.Unset("hang/NodePublishVolume")
		d.Kill(driver)
		n.AwaitOther(d.PodName(), driver)
		n.AwaitWaiting("app", "FailedMount", "CSI driver "+d.Name+": NodePublishVolume failed: Internal: the disk is locked")
		d.Unset("fail/NodePublishVolume")
		app := n.AwaitRunning("app")
		n.MustContain(app, map[string]string{"echo kept > /data/file; cat /data/file": "kept"})

		// Another pod shares the volume, which stays when the first one ends.
		n.WriteManifest("other.yaml", harness.ClaimPod("other", "data"))
		other := n.AwaitRunning("other")
		n.RemoveManifest("app.yaml")
		n.AwaitGone("app")
		d.AwaitCalls("data", "Publish", "Unpublish")
		n.MustContain(other, map[string]string{"cat /data/file": "kept"})

		// podstead is killed while the driver unpublishes.
		shown := n.AwaitReady("other")
		d.Set("hang/NodeUnpublishVolume", "")
		d.Set("leave/NodeUnstageVolume", "")
		n.RemoveManifest("other.yaml")
		d.AwaitCalls("data", "Unpublish", "Unpublish")
		n.Kill()
		d.Set("leave/NodeUnpublishVolume", "")
		d.Unset("hang/NodeUnpublishVolume")
		n.MustStart()
		n.AwaitPodDirGone(shown)
		d.AwaitCalls("data", "Unpublish", "Unpublish", "Unstage")
		n.MustHaveFile(filepath.Join(data, "file"), "kept\n")

		// The pod that waits for the driver that hangs is removed before it has its volume: the call is given up.
		n.RemoveManifest("late.yaml")
		slow.AwaitCalls("late", "Stage", "Unstage")
		n.AwaitNoCSI()
	})
}

// A volume of a CSI driver has the options of its PersistentVolume: read-only, mount options, the group of
// the pod, secrets, and the size to which it grows. An inline volume ends with its pod.
func TestCSIOptions(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		own, d := n.NewCSIDriver("own"), n.NewCSIDriver("disk")
		own.Set("without/VOLUME_MOUNT_GROUP", "")
		own.Set("without/STAGE_UNSTAGE_VOLUME", "")
		for _, id := range []string{"grouped", "fixed"} {
			own.Volume(id)
		}
		d.Volume("data")
		if err := os.WriteFile(filepath.Join(own.Volume("fixed"), "file"), []byte("old\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		secrets := "nodeStageSecretRef: {name: stage, namespace: storage}, nodePublishSecretRef: {name: publish, " +
			"namespace: storage}"
		pv := d.CSIVolume("data", "volumeAttributes: {color: red}, fsType: ext4, "+secrets, "mountOptions: [noexec, noatime]")
		n.WriteManifest("data.yaml", pv)
		n.WriteManifest("own.yaml", own.CSIVolume("grouped", "fsType: ext4", "")+
			own.CSIVolume("fixed", "readOnly: true, fsType: ext4", ""))
		n.WriteManifest("app.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: app, namespace: apps}
spec:
  terminationGracePeriodSeconds: 1
  serviceAccountName: web
  automountServiceAccountToken: false
  securityContext: {fsGroup: 4711}
  containers:
  - name: main
    image: %s
    command: [sleep, "100000"]
    volumeMounts:
    - {name: data, mountPath: /data}
    - {name: grouped, mountPath: /grouped}
    - {name: fixed, mountPath: /fixed}
    - {name: inline, mountPath: /inline}
    - {name: part, mountPath: /part, subPath: class}
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: grouped, persistentVolumeClaim: {claimName: grouped}}
  - {name: fixed, persistentVolumeClaim: {claimName: fixed}}
  - name: inline
    csi: {driver: %s, volumeAttributes: {class: fast}, nodePublishSecretRef: {name: inline}}
  - {name: part, csi: {driver: %[2]s, readOnly: true, volumeAttributes: {class: slow}}}
`, testbed.BusyboxImage, d.Name))
		n.Args = append(n.Args, "--volume-stats-agg-period", "1s")
		n.MustStart()
		d.Start()
		own.Start()
		n.AwaitWaiting("app", "FailedMount", "Secret storage/stage", "Secret apps/inline")
		n.WriteManifest("secrets.yaml",
			secretOf("storage", "stage", "s1")+secretOf("storage", "publish", "s2")+secretOf("apps", "inline", "s3"))
		app := n.AwaitRunning("app")
		n.MustContain(app, map[string]string{
			"grep -o ' /data [^ ]* [^ ]*' /proc/mounts | grep noexec | grep -c noatime": "1",
			"stat -c %g /grouped": "4711",
			"stat -c %g /data":    "4711",
			"stat -c %g /fixed /fixed/file; cat /fixed/file; touch /fixed/new || true": "0\n0\nold",
			"touch /fixed/new 2>&1 | grep -o 'Read-only file system'":                  "Read-only file system",
			"cat /inline/class; echo; cat /part":                                       "fast\nslow",
			"touch /inline/new && echo written":                                        "written",
		})
		got := map[string]map[string]string{}
		var inline string
		for _, c := range d.Calls() {
			key := c.Method
			if c.Request.VolumeContext["class"] == "fast" {
				key, inline = "inline", c.Request.VolumeID
				for name, want := range map[string]string{
					"pod.name": n.PodName("app"), "pod.namespace": "apps", "serviceAccount.name": "web", "ephemeral": "true",
				} {
					if got := c.Request.VolumeContext["csi.storage.k8s.io/"+name]; got != want {
						t.Errorf("the driver gets %s=%q, want %q", name, got, want)
					}
				}
			}
			if c.Request.VolumeID == "data" && c.Request.VolumeContext["color"] != "red" {
				t.Errorf("%s: attributes %v", c.Method, c.Request.VolumeContext)
			}
			if len(c.Request.Secrets) > 0 {
				got[key] = c.Request.Secrets
			}
		}
		want := map[string]map[string]string{"NodeStageVolume": {"key": "s1"}, "NodePublishVolume": {"key": "s2"},
			"inline": {"key": "s3"}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the driver got the secrets %v, want %v", got, want)
		}

		// The volume grows; the pod goes on.
		n.WriteManifest("data.yaml", strings.Replace(pv, "capacity: {storage: 1Gi}", "capacity: {storage: 2Gi}", 1))
		d.AwaitCalls("data", "Publish", "Expand")
		n.CLI(0, []string{"2Gi"}, "get", "pv", "data")
		n.MustStillRun("app", app)

		// Usage and condition are those that the driver reports.
		d.Set("condition/data", "a disk has failed")
		n.Await("the metrics have the usage and the condition of the volume", func() error {
			body, err := n.Get(t.Context(), "/metrics")
			for _, line := range []string{"used_bytes{%s} 1.048576e+06", "capacity_bytes{%s} 1.073741824e+09", "inodes{%s} 1000",
				"health_status_abnormal{%s} 1"} {
				line = "kubelet_volume_stats_" + fmt.Sprintf(line, `namespace="apps",persistentvolumeclaim="data"`)
				if err == nil && !strings.Contains(string(body), line+"\n") {
					err = fmt.Errorf("no %s", line)
				}
			}
			return err
		})
		n.Await("podstead volumes has the usage of the volume", func() error {
			out, errs, status := n.Podstead("volumes", "--api-socket", n.Socket())
			for _, want := range []string{"1.0 MiB", "1.0 GiB", d.Name + ":data"} {
				if status != 0 || !strings.Contains(out, want) {
					return fmt.Errorf("no %q, or status %d: %s%s", want, status, out, errs)
				}
			}
			return nil
		})

		shown := n.AwaitReady("app")
		n.RemoveManifest("app.yaml")
		n.AwaitPodDirGone(shown)
		n.AwaitNoCSI()
		if _, err := os.Stat(filepath.Join(d.Dir, "volumes", inline)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the inline volume is left: %v", err)
		}
		n.MustHaveFile(filepath.Join(own.Dir, "volumes/fixed/file"), "old\n")
	})
}

// secretOf returns a Secret with one key.
func secretOf(namespace, name, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\nstringData: {key: %s}\n",
		name, namespace, value)
}
