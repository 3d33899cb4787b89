package spec

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A RuntimeClass selects another handler of the runtime, here one that does not give the
// host's devices to privileged containers. The class may come from a manifest or a flag. A pod
// is held if its class does not exist or the runtime does not have the handler.
func TestRuntimeClass(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const privileged = "os: {name: linux}\n  containers: [{name: main, image: " + testbed.BusyboxImage +
			", command: [sleep, \"100000\"], securityContext: {privileged: true}}]\n  "
		pod := func(name, class string) string {
			text := harness.PodWithSpec(name, "runtimeClassName: "+class)
			at := strings.Index(text, "  containers:")
			return text[:at] + "  " + privileged
		}
		n.WriteManifest("plain.yaml", strings.Replace(pod("plain", "x"), "runtimeClassName: x", "", 1))
		n.WriteManifest("declared.yaml", pod("declared", "devless"))
		n.WriteManifest("flag.yaml", pod("flag", "flagged"))
		n.WriteManifest("nohandler.yaml", pod("nohandler", "strange"))
		n.WriteManifest("strange.yaml",
			"{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: strange}, handler: not-there}\n")
		n.Args = []string{"--runtime-classes", "flagged=" + testbed.OtherHandler}
		n.MustStart()
		n.AwaitHeld("declared", "RuntimeClassNotFound", `RuntimeClass "devless" not found`)
		n.WriteManifest("class.yaml", "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: devless}, handler: "+
			testbed.OtherHandler+"}\n")
		for pod, want := range map[string]string{"plain": "there", "declared": "none", "flag": "none"} {
			if got := n.Exec(n.AwaitRunning(pod), "sh", "-c", "test -e /dev/kmsg && echo there || echo none"); got != want {
				t.Errorf("%s: the host's /dev/kmsg is %s", pod, got)
			}
		}
		n.AwaitHeld("nohandler", "CreatePodSandboxError", "not-there")
	})
}

// The built-in priority classes exist, others come from manifests, and the pod shows the
// values of its class.
func TestPriorityClass(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("critical.yaml", harness.PodWithSpec("critical", "priorityClassName: system-node-critical"))
		n.WriteManifest("batch.yaml", harness.PodWithSpec("batch", "priorityClassName: batch"))
		n.WriteManifest("number.yaml", harness.PodWithSpec("number", "priority: 7"))
		n.WriteManifest("both.yaml", harness.PodWithSpec("both", "priorityClassName: system-node-critical\n  priority: 7"))
		n.MustStart()
		n.AwaitHeld("batch", "PriorityClassNotFound", `PriorityClass "batch" not found`)
		n.AwaitHeld("both", "ClassConflict", "spec.priority: 7 conflicts with 2000001000")
		n.WriteManifest("class.yaml", "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: batch}, "+
			"value: -5, preemptionPolicy: Never}\n")
		adjusted := map[string]string{}
		for name, want := range map[string]int32{"critical": 2000001000, "batch": -5, "number": 7} {
			adj, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", n.AwaitRunning(name).Pid))
			if err != nil {
				t.Fatal(err)
			}
			adjusted[name] = strings.TrimSpace(string(adj))
			p := n.AwaitReady(name)
			if p.Spec.Priority == nil || *p.Spec.Priority != want {
				t.Errorf("%s: priority %v, want %d", name, p.Spec.Priority, want)
			}
			if name == "batch" && (p.Spec.PreemptionPolicy == nil || *p.Spec.PreemptionPolicy != v1.PreemptNever) {
				t.Errorf("preemption policy %v", p.Spec.PreemptionPolicy)
			}
		}
		// The test hosts may not set a value below the runtime's own.
		if adjusted["critical"] == "1000" || adjusted["batch"] != "1000" {
			t.Errorf("oom_score_adj %v: the OOM killer would treat the critical pod like any other", adjusted)
		}
	})
}

// A pod with a user namespace: its root has no privileges on the host, also in mounted
// volumes. On a runtime without support the pod is held.
func TestUserNamespace(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Args = []string{"--runtime-classes", "new=" + testbed.OtherHandler}
		manifest := func(name, class string) string {
			return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[2]s}
spec:
  terminationGracePeriodSeconds: 0
  hostUsers: false
  %[3]s
  volumes: [{name: data, emptyDir: {}}]
  containers:
    - name: main
      image: %[1]s
      command: [sh, -c, "echo last words > /dev/termination-log; touch /data/file; while [ ! -e /data/end ]; do sleep 0.1; done; exit 3"]
      volumeMounts: [{name: data, mountPath: /data}]
    - {name: user, image: %[1]s, command: [sleep, "100000"], securityContext: {runAsUser: 1000, procMount: Unmasked}}
`, testbed.BusyboxImage, name, class)
		}
		n.WriteManifest("default.yaml", manifest("default", ""))
		n.WriteManifest("a.yaml", manifest("a", "runtimeClassName: new"))
		n.WriteManifest("b.yaml", manifest("b", "runtimeClassName: new"))
		n.MustStart()
		n.AwaitHeld("default", "NotSupportedByRuntime", "spec.hostUsers", "runc 1.2")
		if n.Runtime.Kind == testbed.Containerd16 {
			n.AwaitHeld("a", "NotSupportedByRuntime", "containerd 1.6.20")
			return
		}
		a, b, user := n.AwaitRunning("a"), n.AwaitRunning("b"), n.AwaitContainer("a", "user")
		firstID := func(i harness.Instance) (id int) {
			t.Helper()
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", i.Pid))
			inside, length := 0, 0
			if err == nil {
				_, err = fmt.Sscan(string(text), &inside, &id, &length)
			}
			if err != nil || inside != 0 || length != 65536 || id < 65536 {
				t.Fatalf("uid_map is %q, %v", text, err)
			}
			return id
		}
		if firstID(a) == firstID(b) {
			t.Error("two pods have the same user ID range")
		}
		if got := procStatus(t, a.Pid)["Uid"]; got != idMap(firstID(a)) {
			t.Errorf("root of the pod is %s on the host", got)
		}
		if got := procStatus(t, user.Pid)["Uid"]; got != idMap(firstID(a)+1000) {
			t.Errorf("user 1000 of the pod is %s on the host", got)
		}
		n.AwaitExec(a, "0", "stat", "-c", "%u", "/data/file")
		if masked := n.Exec(a, "sh", "-c", "grep -c ' /proc/sys ' /proc/self/mounts; true"); masked != "1" {
			t.Errorf("the other container's /proc/sys is mounted %s times", masked)
		}
		if masked := n.Exec(user, "sh", "-c", "grep -c ' /proc/' /proc/self/mounts; true"); masked != "0" {
			t.Errorf("of the unmasked /proc, %s parts are masked", masked)
		}
		// The user ID mapping survives restarts of the daemon and of a container.
		n.Restart()
		n.MustStillRun("a", a)
		n.Exec(a, "touch", "/data/end")
		p := n.AwaitStatus("a", "has exited once", func(p v1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				if c.LastTerminationState.Terminated != nil {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		})
		for _, c := range p.Status.ContainerStatuses {
			if end := c.LastTerminationState.Terminated; end != nil && strings.TrimSpace(end.Message) != "last words" {
				t.Errorf("%s left the message %q", c.Name, end.Message)
			}
		}
		if again := n.AwaitContainer("a", "user"); again != user {
			t.Errorf("the other container runs as %+v, not %+v", again, user)
		}
	})
}

// Supplementary groups of the image's user are merged, or left out with Strict where the
// runtime supports it.
func TestSupplementalGroupsPolicy(t *testing.T) {
	ref := imageWithGroup(t)
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		for name, policy := range map[string]string{"merge": "Merge", "strict": "Strict"} {
			n.WriteManifest(name+".yaml", strings.Replace(harness.PodWithSpec(name, "securityContext: {runAsUser: 1000, "+
				"runAsGroup: 1000, supplementalGroups: [70], supplementalGroupsPolicy: "+policy+"}"), testbed.BusyboxImage, ref, 1))
		}
		n.MustStart()
		if got := procStatus(t, n.AwaitRunning("merge").Pid)["Groups"]; got != "70 1000 5000" {
			t.Errorf("merged: %q", got)
		}
		if n.Runtime.Kind == testbed.Containerd16 {
			n.AwaitHeld("strict", "NotSupportedByRuntime", "spec.securityContext.supplementalGroupsPolicy",
				"containerd 2.0 or later")
			return
		}
		if got := procStatus(t, n.AwaitRunning("strict").Pid)["Groups"]; got != "70 1000" {
			t.Errorf("strict: %q", got)
		}
	})
}
