package upgrade

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// fullPod is a pod with state of every kind: a claim, a memory volume, a ConfigMap and a
// Secret, a sidecar, an init container, a readiness probe and a postStart hook, which must not
// run twice.
const fullPod = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: green}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {password: hunter2}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: full}
spec:
  terminationGracePeriodSeconds: 5
  initContainers:
    - name: once
      image: IMAGE
      command: [sh, -c, "echo ran >> /data/init"]
      volumeMounts: [{name: data, mountPath: /data}]
    - name: helper
      image: IMAGE
      restartPolicy: Always
      command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
  containers:
    - name: main
      image: IMAGE
      command: [sh, -c, "trap 'exit 0' TERM; echo kept > /memory/file; touch /memory/ready; sleep 100000 & wait"]
      env:
        - name: COLOR
          valueFrom: {configMapKeyRef: {name: settings, key: color}}
      readinessProbe:
        exec: {command: [test, -e, /memory/ready]}
        periodSeconds: 1
        timeoutSeconds: 300
      lifecycle:
        postStart: {exec: {command: [sh, -c, "echo started >> /data/hook"]}}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: memory, mountPath: /memory}
        - {name: password, mountPath: /password}
  volumes:
    - name: data
      persistentVolumeClaim: {claimName: data}
    - name: memory
      emptyDir: {medium: Memory, sizeLimit: 1Mi}
    - name: password
      secret: {secretName: password}
`

// restartCount returns the restart count of the pod's container main.
func restartCount(p v1.Pod) int32 {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == "main" {
			return c.RestartCount
		}
	}
	return 0
}

// beforeStorage are the previous versions that have neither storage classes nor CSI volumes.
var beforeStorage = []string{"0c41174"}

func withRestartPolicy(manifest string, policy v1.RestartPolicy) string {
	return strings.Replace(manifest, "spec:\n", fmt.Sprintf("spec:\n  restartPolicy: %s\n", policy), 1)
}

// An upgrade from a previous version keeps all running pods and all state: containers and
// their processes, volumes, restart counts, finished pods, and the last good revision of a
// broken manifest.
func TestUpgradeFromPreviousVersion(t *testing.T) {
	for commit, binary := range testbed.PreviousVersions() {
		t.Run(commit, func(t *testing.T) {
			if _, err := os.Stat(binary); err != nil {
				t.Fatalf("podstead %s is not built: %v; run make setup", commit, err)
			}
			harness.OnEachRuntime(t, func(t *testing.T,
				n *harness.Node) {
				upgradeFrom(t, n, binary, slices.Contains(beforeStorage, commit))
			})
		})
	}
}

func upgradeFrom(t *testing.T, n *harness.Node, binary string, withoutClasses bool) {
	n.Binary = binary
	fullPod := fullPod
	if withoutClasses {
		// Classes had no effect when the pod got its volume.
		fullPod = strings.Replace(fullPod, "accessModes: [ReadWriteOnce]",
			"accessModes: [ReadWriteOnce]\n  storageClassName: standard", 1)
	}
	broken := harness.SleepPod("broken", "good")
	edited, removed := harness.SleepPod("edited", "old"), harness.SleepPod("removed", "old")
	n.WriteManifest("full.yaml", strings.ReplaceAll(fullPod, "IMAGE", testbed.BusyboxImage))
	n.WriteManifest("broken.yaml", broken)
	n.WriteManifest("edited.yaml", edited)
	n.WriteManifest("removed.yaml", removed)
	n.WriteManifest("crashing.yaml", harness.ScriptPod("crashing", "x", 1, "exit 3"))
	n.WriteManifest("done.yaml", withRestartPolicy(harness.ScriptPod("done", "x", 1, "exit 0"), v1.RestartPolicyNever))
	n.MustStart()

	before := n.AwaitReady("full")
	main, helper := n.AwaitContainer("full", "main"), n.AwaitContainer("full", "helper")
	good, old := n.AwaitRunning("broken"), n.AwaitRunning("edited")
	n.AwaitRunning("removed")
	n.AwaitReady("broken")
	n.AwaitPhase("done", v1.PodSucceeded)
	crashes := restartCount(n.AwaitStatus("crashing", "restarted twice", func(p v1.Pod) error {
		if restartCount(p) < 2 {
			return fmt.Errorf("restarted %d times", restartCount(p))
		}
		return nil
	}))
	n.WriteManifest("broken.yaml", broken+"  bogus: [\n")
	n.AwaitManifestError("broken.yaml")
	n.Exec(main, "sh", "-c", "echo written > /data/file")

	n.Kill()
	n.WriteManifest("edited.yaml", harness.SleepPod("edited", "new"))
	n.RemoveManifest("removed.yaml")
	n.Binary = testbed.Product()
	n.MustStart()

	after := n.AwaitReady("full")
	n.MustStillRun("full", main)
	if got := n.AwaitContainer("full", "helper"); got != helper {
		t.Errorf("the sidecar runs as %+v, want the same instance as before, %+v", got, helper)
	}
	if before.UID != after.UID || !before.Status.StartTime.Equal(after.Status.StartTime) {
		t.Errorf("UID and start time went from %s, %v to %s, %v", before.UID, before.Status.StartTime, after.UID,
			after.Status.StartTime)
	}
	for file, want := range map[string]string{
		"/memory/file": "kept", "/data/file": "written", "/data/init": "ran", "/data/hook": "started",
		"/password/password": "hunter2",
	} {
		if got := n.Exec(main, "cat", file); got != want {
			t.Errorf("%s contains %q, want %q", file, got, want)
		}
	}
	n.AwaitManifestError("broken.yaml")
	n.MustStillRun("broken", good)
	n.AwaitOther("edited", old)
	n.AwaitGone("removed")
	if p := n.AwaitPhase("done", v1.PodSucceeded); restartCount(p) != 0 {
		t.Errorf("the finished pod was restarted %d times", restartCount(p))
	}
	n.AwaitStatus("crashing", "restart count kept", func(p v1.Pod) error {
		if restartCount(p) < crashes {
			return fmt.Errorf("restarted %d times, %d before the upgrade", restartCount(p), crashes)
		}
		return nil
	})

	// Writing the same content again is not a new revision for the new version either, and
	// a restart of the new version keeps the pod too.
	n.WriteManifest("full.yaml", "# a comment\n"+strings.ReplaceAll(fullPod, "IMAGE", testbed.BusyboxImage))
	n.WriteManifest("broken.yaml", broken)
	n.Restart()
	n.AwaitReady("full")
	n.MustStillRun("full", main)
	n.AwaitReady("broken")
	n.MustStillRun("broken", good)
	n.RemoveManifest("full.yaml")
	n.AwaitGone("full")

	// The claim has its directory for good, also when there is a class of that name, or a default class.
	n.WriteManifest("class.yaml", fmt.Sprintf(`apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: podstead.io/directory
parameters: {path: %s, mountPoint: /}
`, n.Dir()))
	n.WriteManifest("full.yaml", strings.ReplaceAll(fullPod, "IMAGE", testbed.BusyboxImage))
	n.AwaitReady("full")
	if got := n.Exec(n.AwaitContainer("full", "main"), "cat", "/data/file"); got != "written" {
		t.Errorf("/data/file contains %q in a new pod, want that of the previous version", got)
	}
}
