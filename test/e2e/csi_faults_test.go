package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/testbed"
)

// A driver that hangs or fails delays only the pods with its volumes. A driver that was killed between
// staging and publishing, a podstead that was killed while the driver unpublished, and a driver that leaves
// its mounts leave nothing behind, and delete nothing.
func TestCSIFaults(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		d, slow := n.newCSIDriver("disk"), n.newCSIDriver("slow")
		data := d.volume("data")
		slow.volume("late")
		n.start()
		driver := d.start()
		slow.start()

		slow.set("hang/NodeStageVolume", "")
		n.writeManifest("late.yaml", claimPod("late", "late")+slow.csiVolume("late", "", ""))
		slow.awaitCalls("late", "Stage")
		d.set("hang/NodePublishVolume", "")
		n.writeManifest("data.yaml", d.csiVolume("data", "", ""))
		n.writeManifest("app.yaml", claimPod("app", "data"))
		d.awaitCalls("data", "Stage", "Publish")
		n.writeManifest("plain.yaml", claimPod("plain", "own")+storageClaim("own", "1Gi", ""))
		n.awaitRunning("plain")

		// The driver is killed before it has published. The call that hangs must not publish either.
		d.set("fail/NodePublishVolume", "INTERNAL the disk is locked")
		d.unset("hang/NodePublishVolume")
		d.kill(driver)
		n.awaitOther(d.podName(), driver)
		n.awaitWaiting("app", "FailedMount", "CSI driver "+d.name+": NodePublishVolume failed: Internal: the disk is locked")
		d.unset("fail/NodePublishVolume")
		app := n.awaitRunning("app")
		n.mustContain(app, map[string]string{"echo kept > /data/file; cat /data/file": "kept"})

		// Another pod shares the volume, which stays when the first one ends.
		n.writeManifest("other.yaml", claimPod("other", "data"))
		other := n.awaitRunning("other")
		n.removeManifest("app.yaml")
		n.awaitGone("app")
		d.awaitCalls("data", "Publish", "Unpublish")
		n.mustContain(other, map[string]string{"cat /data/file": "kept"})

		// podstead is killed while the driver unpublishes.
		shown := n.awaitReady("other")
		d.set("hang/NodeUnpublishVolume", "")
		d.set("leave/NodeUnstageVolume", "")
		n.removeManifest("other.yaml")
		d.awaitCalls("data", "Unpublish", "Unpublish")
		n.Kill()
		d.set("leave/NodeUnpublishVolume", "")
		d.unset("hang/NodeUnpublishVolume")
		n.start()
		n.awaitPodDirGone(shown)
		d.awaitCalls("data", "Unpublish", "Unpublish", "Unstage")
		n.mustHaveFile(filepath.Join(data, "file"), "kept\n")

		// The pod that waits for the driver that hangs is removed before it has its volume: the call is given up.
		n.removeManifest("late.yaml")
		slow.awaitCalls("late", "Stage", "Unstage")
		n.awaitNoCSI()
	})
}

// A volume of a CSI driver has the options of its PersistentVolume: read-only, mount options, the group of
// the pod, secrets, and the size to which it grows. An inline volume ends with its pod.
func TestCSIOptions(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		own, d := n.newCSIDriver("own"), n.newCSIDriver("disk")
		own.set("without/VOLUME_MOUNT_GROUP", "")
		own.set("without/STAGE_UNSTAGE_VOLUME", "")
		for _, id := range []string{"grouped", "fixed"} {
			own.volume(id)
		}
		d.volume("data")
		if err := os.WriteFile(filepath.Join(own.volume("fixed"), "file"), []byte("old\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		secrets := "nodeStageSecretRef: {name: stage, namespace: storage}, nodePublishSecretRef: {name: publish, namespace: storage}"
		pv := d.csiVolume("data", "volumeAttributes: {color: red}, fsType: ext4, "+secrets, "mountOptions: [noexec, noatime]")
		n.writeManifest("data.yaml", pv)
		n.writeManifest("own.yaml", own.csiVolume("grouped", "fsType: ext4", "")+own.csiVolume("fixed", "readOnly: true, fsType: ext4", ""))
		n.writeManifest("app.yaml", fmt.Sprintf(`apiVersion: v1
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
`, testbed.BusyboxImage, d.name))
		n.Args = append(n.Args, "--volume-stats-agg-period", "1s")
		n.start()
		d.start()
		own.start()
		n.awaitWaiting("app", "FailedMount", "Secret storage/stage", "Secret apps/inline")
		n.writeManifest("secrets.yaml", secretOf("storage", "stage", "s1")+secretOf("storage", "publish", "s2")+secretOf("apps", "inline", "s3"))
		app := n.awaitRunning("app")
		n.mustContain(app, map[string]string{
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
		for _, c := range d.calls() {
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
		want := map[string]map[string]string{"NodeStageVolume": {"key": "s1"}, "NodePublishVolume": {"key": "s2"}, "inline": {"key": "s3"}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the driver got the secrets %v, want %v", got, want)
		}

		// The volume grows; the pod goes on.
		n.writeManifest("data.yaml", strings.Replace(pv, "capacity: {storage: 1Gi}", "capacity: {storage: 2Gi}", 1))
		d.awaitCalls("data", "Publish", "Expand")
		n.cli(0, []string{"2Gi"}, "get", "pv", "data")
		n.mustStillRun("app", app)

		// Usage and condition are those that the driver reports.
		d.set("condition/data", "a disk has failed")
		n.await("the metrics have the usage and the condition of the volume", func() error {
			body, err := n.Get(t.Context(), "/metrics")
			for _, line := range []string{"used_bytes{%s} 1.048576e+06", "capacity_bytes{%s} 1.073741824e+09", "inodes{%s} 1000", "health_status_abnormal{%s} 1"} {
				line = "kubelet_volume_stats_" + fmt.Sprintf(line, `namespace="apps",persistentvolumeclaim="data"`)
				if err == nil && !strings.Contains(string(body), line+"\n") {
					err = fmt.Errorf("no %s", line)
				}
			}
			return err
		})
		n.await("podstead volumes has the usage of the volume", func() error {
			out, errs, status := n.podstead("volumes", "--api-socket", n.Socket())
			for _, want := range []string{"1.0 MiB", "1.0 GiB", d.name + ":data"} {
				if status != 0 || !strings.Contains(out, want) {
					return fmt.Errorf("no %q, or status %d: %s%s", want, status, out, errs)
				}
			}
			return nil
		})

		shown := n.awaitReady("app")
		n.removeManifest("app.yaml")
		n.awaitPodDirGone(shown)
		n.awaitNoCSI()
		if _, err := os.Stat(filepath.Join(d.dir, "volumes", inline)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the inline volume is left: %v", err)
		}
		n.mustHaveFile(filepath.Join(own.dir, "volumes/fixed/file"), "old\n")
	})
}

// secretOf returns a Secret with one key.
func secretOf(namespace, name, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\nstringData: {key: %s}\n", name, namespace, value)
}
