package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

const settings = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: apps}
data: {color: %s, size: big}
binaryData: {raw: AAE=}
`

const login = `apiVersion: v1
kind: Secret
metadata: {name: login, namespace: apps}
stringData: {password: %s}
`

// Volumes of ConfigMaps and Secrets wait for their objects, follow changes while the pod runs,
// and keep their content when an object is removed.
func TestObjectVolumes(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.VolumePod("p", `[
  {name: all, configMap: {name: settings, defaultMode: 0600}},
  {name: one, configMap: {name: settings, items: [{key: color, path: deep/paint, mode: 0404}]}},
  {name: secret, secret: {secretName: login, defaultMode: 0400}},
  {name: none, secret: {secretName: missing, optional: true}},
  {name: mix, projected: {defaultMode: 0440, sources: [
    {configMap: {name: settings, items: [{key: color, path: c}]}},
    {secret: {name: login, items: [{key: password, path: s/p, mode: 0400}]}},
    {downwardAPI: {items: [{path: d, fieldRef: {fieldPath: "metadata.labels['app']"}}]}}]}}]`, `[
  {name: all, mountPath: /all}, {name: one, mountPath: /one}, {name: secret, mountPath: /secret},
  {name: none, mountPath: /none}, {name: mix, mountPath: /mix}, {name: all, mountPath: /frozen, subPath: color}]`, ""))
		n.WriteManifest("key.yaml", harness.VolumePod("key",
			"[{name: v, configMap: {name: settings, items: [{key: shape, path: x}]}}]", "[{name: v, mountPath: /v}]", ""))
		n.MustStart()
		n.AwaitWaiting("p", "FailedMount", `volume "all" : ConfigMap apps/settings`, `volume "secret" : Secret apps/login`)
		n.WriteManifest("settings.yaml", fmt.Sprintf(settings, "red"))
		n.AwaitWaiting("key", "FailedMount", `key "shape" of ConfigMap apps/settings`, "color")
		n.WriteManifest("login.yaml", fmt.Sprintf(login, "first"))
		main := n.AwaitRunning("p")
		n.MustContain(main, map[string]string{
			"cat /all/color /all/size /frozen":        "redbigred",
			"od -An -tx1 /all/raw":                    "00 01",
			"ls /all":                                 "color\nraw\nsize",
			"stat -L -c %a /all/color":                "600",
			"cat /one/deep/paint; ls /one":            "reddeep",
			"stat -L -c %a /one/deep/paint":           "404",
			"cat /secret/password":                    "first",
			"stat -L -c '%a %u' /secret/password":     "400 0",
			"ls -A /none | grep -v '^\\.\\.' | wc -l": "0",
			"cat /mix/c /mix/s/p /mix/d":              "redfirstweb",
			"stat -L -c %a /mix/c /mix/s/p /mix/d":    "440\n400\n440",
			"for v in secret mix none; do grep \" /$v \" /proc/mounts | cut -d' ' -f3,4 | cut -d, -f1; done": "tmpfs ro\ntmpfs ro\ntmpfs ro",
			"touch /all/x 2>/dev/null || echo read-only":                                                     "read-only",
		})
		n.WriteManifest("settings.yaml", fmt.Sprintf(settings, "blue"))
		n.WriteManifest("login.yaml", fmt.Sprintf(login, "second"))
		n.AwaitExec(main, "bluebluesecondbluesecond", "sh", "-c",
			"cat /all/color /one/deep/paint /secret/password /mix/c /mix/s/p")
		n.MustContain(main, map[string]string{"cat /frozen": "red"})
		n.MustStillRun("p", main)
		mustNotBeOnDisk(n, "first", "second")
		n.Restart()
		n.MustStillRun("p", main)

		n.RemoveManifest("settings.yaml")
		n.RemoveManifest("login.yaml")
		n.Await("an event names the removed objects", func() error {
			body, err := n.Get(t.Context(), "/podstead/v1/events")
			if err == nil && !strings.Contains(string(body), "keeps its content: Secret apps/login") {
				err = errors.New("it does not")
			}
			return err
		})
		n.MustContain(main, map[string]string{"cat /all/color /secret/password": "bluesecond"})
		n.MustStillRun("p", main)
		p := n.AwaitReady("p")
		n.RemoveManifest("p.yaml")
		n.AwaitPodDirGone(p)
	})
}

// mustNotBeOnDisk fails the test if a file in the pods' directories contains one of the words
// and is not in memory.
func mustNotBeOnDisk(n *harness.Node, words ...string) {
	n.T.Helper()
	memory := n.MountsOf("")
	seen := 0
	err := filepath.WalkDir(filepath.Join(n.Root, "pods"), func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the daemon has removed it meanwhile
		}
		if err != nil {
			return err
		}
		for _, mount := range memory {
			if path == mount && entry.IsDir() {
				return filepath.SkipDir
			}
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		seen++
		data, err := os.ReadFile(path)
		for _, word := range words {
			if strings.Contains(string(data), word) {
				n.T.Errorf("a secret is on disk, in %s", path)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil || seen == 0 {
		n.T.Fatalf("checked %d files: %v", seen, err)
	}
}

const claimed = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: apps}
spec: {accessModes: [%s], resources: {requests: {storage: 1Gi}}}
`

// The directory of a claim outlives its pods and is only removed by a command.
func TestPersistentVolumes(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const volumes = "[{name: data, persistentVolumeClaim: {claimName: data}}]"
		pod := harness.VolumePod("p", volumes,
			"[{name: data, mountPath: /data}, {name: data, mountPath: /part, subPath: part}]",
			"  securityContext: {runAsUser: 1234, fsGroup: 2345}")
		n.WriteManifest("p.yaml", pod)
		n.MustStart()
		n.AwaitWaiting("p", "FailedMount", "PersistentVolumeClaim apps/data")
		n.WriteManifest("claim.yaml", fmt.Sprintf(claimed, "ReadWriteOncePod"))
		main := n.AwaitRunning("p")
		n.MustContain(main, map[string]string{
			"echo kept > /data/file; stat -c '%u %g' /data/file": "1234 2345",
			"stat -c %a /data":                      "2777",
			"echo also > /part/x; cat /data/part/x": "also",
		})
		n.WriteManifest("q.yaml", harness.VolumePod("q", volumes, "[{name: data, mountPath: /data}]", ""))
		n.AwaitWaiting("q", "FailedMount", "ReadWriteOncePod, and pod apps/p uses it")
		p := n.AwaitReady("p")
		n.RemoveManifest("p.yaml")
		n.AwaitPodDirGone(p)
		n.MustContain(n.AwaitRunning("q"), map[string]string{"cat /data/file": "kept"})
		directory := filepath.Join(n.Root, "volumes/apps/data")
		if _, err := os.Stat(filepath.Join(directory, "file")); err != nil {
			t.Error(err)
		}
		q := n.AwaitReady("q")
		n.RemoveManifest("claim.yaml")
		n.RemoveManifest("q.yaml")
		n.AwaitPodDirGone(q)
		n.Restart()
		if _, err := os.Stat(filepath.Join(directory, "file")); err != nil {
			t.Error(err)
		}
		if out, errs, status := n.Podstead("volumes", "--api-socket", n.Socket()); status != 0 ||
			!strings.Contains(out, directory) || !strings.Contains(out, "<none>") {
			t.Errorf("volumes exited with %d:\n%s%s", status, out, errs)
		}
		// A claim that is read-only for all pods.
		n.WriteManifest("claim.yaml", fmt.Sprintf(claimed, "ReadOnlyMany"))
		n.WriteManifest("r.yaml", harness.VolumePod("r", volumes, "[{name: data, mountPath: /data}]", ""))
		n.MustContain(n.AwaitRunning("r"),
			map[string]string{"cat /data/file; touch /data/x 2>/dev/null || echo read-only": "kept\nread-only"})
		out, errs, status := n.Podstead("volumes", "--api-socket", n.Socket())
		if status != 0 || !strings.Contains(out, "1Gi") || !strings.Contains(out, "apps/r") {
			t.Errorf("volumes exited with %d:\n%s%s", status, out, errs)
		}
		rm := func() (string, int) {
			_, errs, status := n.Podstead("volumes", "rm", "apps/data", "--api-socket", n.Socket())
			return errs, status
		}
		if errs, status := rm(); status != 1 || !strings.Contains(errs, "is used by pod apps/") {
			t.Errorf("removing a volume in use exited with %d: %s", status, errs)
		}
		r := n.AwaitReady("r")
		n.RemoveManifest("r.yaml")
		n.AwaitPodDirGone(r)
		n.Await("the volume is no longer in use, and is removed", func() error {
			if errs, status := rm(); status != 0 {
				return fmt.Errorf("exit code %d: %s", status, errs)
			}
			return nil
		})
		if _, err := os.Stat(directory); !os.IsNotExist(err) {
			t.Errorf("%s still exists: %v", directory, err)
		}
		if errs, status := rm(); status != 1 || !strings.Contains(errs, `volume of claim "apps/data" not found`) {
			t.Errorf("removing it again exited with %d: %s", status, errs)
		}
	})
}

// An image volume. On a runtime without support the pod is held.
func TestImageVolume(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		volume := func(image string) string { return "[{name: image, image: {reference: " + image + "}}]" }
		n.WriteManifest("p.yaml", harness.VolumePod("p", volume(testbed.BusyboxImage), "[{name: image, mountPath: /image}]",
			""))
		n.WriteManifest("part.yaml", harness.VolumePod("part", volume(testbed.BusyboxImage),
			"[{name: image, mountPath: /bins, subPath: bin}]", ""))
		late := "docker.io/library/late-volume-" + n.Name + ":1"
		n.WriteManifest("late.yaml", harness.VolumePod("late", volume(late), "[{name: image, mountPath: /image}]", ""))
		n.MustStart()
		if n.Runtime.Kind == testbed.Containerd16 {
			n.AwaitWaiting("p", "NotSupportedByRuntime", "spec.volumes[0].image", "containerd 1.6.20", "containerd 2.1 or later")
			n.AwaitWaiting("part", "NotSupportedByRuntime", "spec.containers[0].volumeMounts[0].subPath",
				"containerd 2.2 or later")
			return
		}
		n.MustContain(n.AwaitRunning("p"), map[string]string{
			"cmp /bin/busybox /image/bin/busybox && echo same":           "same",
			"touch /image/x 2>/dev/null || echo read-only":               "read-only",
			"grep ' /image ' /proc/mounts | cut -d' ' -f4 | cut -d, -f1": "ro",
		})
		n.MustContain(n.AwaitRunning("part"), map[string]string{"cmp /bin/busybox /bins/busybox && echo same": "same"})
		n.AwaitWaiting("late", "Image", late)
		img, err := testbed.Busybox()
		if err != nil {
			t.Fatal(err)
		}
		if err := harness.Registry.Push(late, img); err != nil {
			t.Fatal(err)
		}
		n.MustContain(n.AwaitRunning("late"), map[string]string{"test -e /image/bin/busybox && echo there": "there"})
	})
}

// Recursive read-only mounts, which the status reports as the runtime made them; on a runtime
// without support the pod is held.
func TestRecursiveReadOnly(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		host := filepath.Join(n.Dir(), "host")
		if err := os.MkdirAll(host+"/below", 0o755); err != nil {
			t.Fatal(err)
		}
		mount(t, "tmpfs", host+"/below")
		volumes := fmt.Sprintf("[{name: host, hostPath: {path: %s}}]", host)
		n.WriteManifest("p.yaml", harness.VolumePod("p", volumes, `[{name: host, mountPath: /top, readOnly: true},
  {name: host, mountPath: /may, readOnly: true, recursiveReadOnly: IfPossible}]`, ""))
		n.WriteManifest("must.yaml", harness.VolumePod("must", volumes,
			"[{name: host, mountPath: /must, readOnly: true, recursiveReadOnly: Enabled}]", ""))
		n.MustStart()
		const try = "touch %[1]s/x 2>/dev/null || echo -n top; touch %[1]s/below/x 2>/dev/null || echo -n below"
		may, mode := "topbelow", v1.RecursiveReadOnlyEnabled
		if n.Runtime.Kind == testbed.Containerd16 {
			may, mode = "top", v1.RecursiveReadOnlyDisabled
			n.AwaitWaiting("must", "NotSupportedByRuntime", "spec.containers[0].volumeMounts[0].recursiveReadOnly",
				"containerd 1.6.20", "containerd 2.0")
		} else {
			n.MustContain(n.AwaitRunning("must"), map[string]string{fmt.Sprintf(try, "/must"): "topbelow"})
		}
		n.MustContain(n.AwaitRunning("p"), map[string]string{fmt.Sprintf(try, "/top"): "top", fmt.Sprintf(try, "/may"): may})
		disabled := v1.RecursiveReadOnlyDisabled
		want := []v1.VolumeMountStatus{
			{Name: "host", MountPath: "/top", ReadOnly: true, RecursiveReadOnly: &disabled},
			{Name: "host", MountPath: "/may", ReadOnly: true, RecursiveReadOnly: &mode},
		}
		if p := n.AwaitReady("p"); !reflect.DeepEqual(p.Status.ContainerStatuses[0].VolumeMounts, want) {
			t.Errorf("the status has %+v", p.Status.ContainerStatuses[0].VolumeMounts)
		}
	})
}
