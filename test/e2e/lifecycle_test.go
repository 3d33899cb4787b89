package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

func TestStartEditRemove(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		first := n.awaitRunning("p")
		if got := n.exec(first, "sh", "-c", "echo $WORD"); got != "one" {
			t.Fatalf("WORD is %q, want one", got)
		}
		status := n.awaitReady("p")
		if got := status.Status.PodIP; !strings.HasPrefix(got, "10.211.") {
			t.Errorf("podIP is %q, want one of the test bed's network", got)
		}
		if got := status.Status.ContainerStatuses[0].ContainerID; got != "containerd://"+first.ID {
			t.Errorf("containerID is %q, want containerd://%s", got, first.ID)
		}

		n.writeManifest("p.yaml", sleepPod("p", "two"))
		second := n.awaitOther("p", first)
		if got := n.exec(second, "sh", "-c", "echo $WORD"); got != "two" {
			t.Fatalf("WORD is %q after the edit, want two", got)
		}
		if processExists(first.Pid) {
			t.Errorf("the first revision still runs as %d", first.Pid)
		}

		n.removeManifest("p.yaml")
		n.awaitGone("p")
		n.await("the pod has left /pods", func() error {
			if _, err := n.pod("p"); err == nil {
				return errors.New("it is still reported")
			}
			return nil
		})
		n.await("its sandboxes, logs and directory are removed", func() error {
			if all, err := n.sandboxes("p"); err != nil || len(all) > 0 {
				return fmt.Errorf("sandboxes %v, %v", all, err)
			}
			for _, dir := range []string{n.PodLogs, n.ContainerLogs} {
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					return fmt.Errorf("%s contains %v", dir, left)
				}
			}
			return nil
		})
	})
}

func TestKilledContainerIsRestarted(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")
		if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		second := n.awaitOther("p", first)
		if second.Attempt != first.Attempt+1 {
			t.Errorf("attempt is %d after %d", second.Attempt, first.Attempt)
		}
		status := n.awaitStatus("p", "one restart", func(p v1.Pod) error {
			c := p.Status.ContainerStatuses
			if len(c) != 1 || c[0].RestartCount != 1 || c[0].State.Running == nil || c[0].LastTerminationState.Terminated == nil {
				return fmt.Errorf("container statuses are %+v", c)
			}
			return nil
		})
		if got := status.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode; got != 137 {
			t.Errorf("last exit code is %d, want 137", got)
		}
		if all, err := n.sandboxes("p"); err != nil || len(all) != 1 {
			t.Errorf("sandboxes: %v, %v, want the previous one", all, err)
		}
	})
}

// A sandbox whose pause process dies stops its pod; a new sandbox is created.
func TestKilledSandboxIsReplaced(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		first := n.awaitRunning("p")
		all, err := n.sandboxes("p")
		if err != nil || len(all) != 1 {
			t.Fatalf("sandboxes: %v, %v", all, err)
		}
		// The daemon may notice the end of the sandbox while this call still removes its
		// network, and do the same; then one of the two gets an error.
		if _, err := n.rt.CRI.Runtime.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: all[0].Id}); err != nil {
			t.Logf("stopping the sandbox: %v", err)
		}
		n.awaitOther("p", first)
		n.await("one ready sandbox", func() error {
			ready := 0
			all, err := n.sandboxes("p")
			for _, s := range all {
				if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
					ready++
				}
			}
			if err != nil || ready != 1 {
				return fmt.Errorf("%d ready of %v, %v", ready, all, err)
			}
			return nil
		})
	})
}

// The same content in another YAML form changes nothing.
func TestSameContentChangesNothing(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.writeManifest("probe.yaml", sleepPod("probe", "0"))
		n.start()
		first, probe := n.awaitRunning("p"), n.awaitRunning("probe")
		hash := n.awaitReady("p").Annotations["kubernetes.io/config.hash"]
		reordered := fmt.Sprintf(`# a comment
kind: Pod
apiVersion: v1
spec:
    restartPolicy: Always   # the default
    containers:
    -   env: [{value: one, name: WORD}]
        command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
        image: %q
        imagePullPolicy: IfNotPresent
        name: main
    terminationGracePeriodSeconds: 10
metadata: {name: p, labels: {}}
`, testbed.BusyboxImage)
		for i, step := range []func(){
			func() { n.writeManifest("p.yaml", sleepPod("p", "one")) },
			func() { n.writeManifest("p.yaml", reordered) },
			func() {
				if err := os.Rename(n.Manifests+"/p.yaml", n.Manifests+"/renamed.yml"); err != nil {
					t.Fatal(err)
				}
			},
		} {
			step()
			// The other pod's replacement proves that the directory was scanned after the
			// step.
			n.writeManifest("probe.yaml", sleepPod("probe", fmt.Sprint(i+1)))
			probe = n.awaitOther("probe", probe)
			n.mustStillRun("p", first)
		}
		if got := n.awaitReady("p").Annotations["kubernetes.io/config.hash"]; got != hash {
			t.Errorf("config.hash went from %s to %s", hash, got)
		}
	})
}

// The second edit comes while the previous revision still terminates after the first: the old
// revision gets its grace period once, the intermediate one never starts, the newest runs.
func TestTwoEditsWithinGrace(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", n.scriptedPod("p", 900, "", scriptedContainer{"main", exitOnFile, ""}))
		n.start()
		first := n.awaitRunning("p")
		n.awaitRecorded("p-main-start")
		n.writeManifest("p.yaml", sleepPod("p", "two"))
		n.awaitRecorded("p-main-ending")
		n.writeManifest("p.yaml", sleepPod("p", "three"))
		n.writeManifest("probe.yaml", sleepPod("probe", "one"))
		n.awaitRunning("probe") // so that the previous edit was detected too
		n.mustStillRun("p", first)
		n.allowExit("go")
		third := n.awaitOther("p", first)
		if got := n.exec(third, "sh", "-c", "echo $WORD"); got != "three" {
			t.Errorf("WORD is %q, want three", got)
		}
		if _, ended := n.recordedAt("p-main-ended"); !ended {
			t.Error("the old revision did not get its grace period")
		}
		n.await("only the new sandbox is left", func() error {
			all, err := n.sandboxes("p")
			if err != nil || len(all) != 1 {
				return fmt.Errorf("%v, %v", all, err)
			}
			return nil
		})
	})
}

// exitOnFile is a script for scriptedPod. It records SIGTERM and exits once the file "go"
// exists.
const exitOnFile = "trap 'note ending; until [ -e /out/go ]; do sleep 0.05; done; note ended; exit 0' TERM; note start; while true; do sleep 0.05; done"

// allowExit creates a file in the directory that scriptedPod mounts at /out.
func (n *node) allowExit(name string) {
	n.t.Helper()
	writeAll(n.t, n.outDir(), map[string]string{name: ""})
}

// A file that is rewritten by removing and creating it does not count as removed.
func TestRemovedAndAddedAtOnce(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.start()
		for i := 0; ; i++ {
			name, probe := fmt.Sprint("p", i), fmt.Sprint("probe", i)
			n.writeManifest(name+".yaml", sleepPod(name, "one"))
			n.writeManifest(probe+".yaml", sleepPod(probe, "one"))
			first := n.awaitRunning(name)
			n.awaitRunning(probe)
			begun := time.Now()
			n.removeManifest(name + ".yaml")
			n.removeManifest(probe + ".yaml")
			n.writeManifest(name+".yaml", sleepPod(name, "one"))
			took := time.Since(begun)
			// Its file was removed at the same moment, and not created again.
			n.awaitGone(probe)
			if took < 500*time.Millisecond {
				n.mustStillRun(name, first)
				return
			}
			// On a busy machine the test may stall in between.
			t.Logf("the file was away for %s, so it was removed", took)
		}
	})
}

// A pod that is added again while it terminates is started again.
func TestRemovedAndAddedAgainWhileTerminating(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		manifest := n.scriptedPod("p", 900, "", scriptedContainer{"main", exitOnFile, ""})
		n.writeManifest("p.yaml", manifest)
		n.start()
		first := n.awaitRunning("p")
		n.awaitRecorded("p-main-start")
		n.removeManifest("p.yaml")
		n.awaitRecorded("p-main-ending")
		n.writeManifest("p.yaml", manifest)
		n.writeManifest("probe.yaml", sleepPod("probe", "one"))
		n.awaitRunning("probe") // so that the previous edit was detected too
		n.mustStillRun("p", first)
		n.allowExit("go")
		n.awaitOther("p", first)
		n.awaitReady("p")
	})
}

func TestFiftyPods(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		const count = 50
		names := make([]string, count)
		for i := range names {
			names[i] = fmt.Sprintf("p%d", i)
			n.writeManifest(names[i]+".yaml", sleepPod(names[i], "one"))
		}
		n.start()
		n.await("all pods run", func() error {
			pods, err := n.Pods(t.Context())
			if err != nil {
				return err
			}
			for _, name := range names {
				if p := pods[name]; p.Status.Phase != v1.PodRunning {
					return fmt.Errorf("%s is %q", name, p.Status.Phase)
				}
			}
			return nil
		}, 20*time.Minute)
		for _, name := range names {
			n.awaitRunning(name)
			n.removeManifest(name + ".yaml")
		}
		for _, name := range names {
			n.awaitGone(name)
		}
	})
}

func TestInitContainersRunInOrder(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
    - {name: v, emptyDir: {}}
  initContainers:
    - {name: a, image: %[1]s, command: [sh, -c, "echo a >> /v/order"], volumeMounts: [{name: v, mountPath: /v}]}
    - {name: b, image: %[1]s, command: [sh, -c, "test -e /v/failed || { touch /v/failed; exit 3; }; echo b >> /v/order"], volumeMounts: [{name: v, mountPath: /v}]}
    - {name: c, image: %[1]s, command: [sh, -c, "echo c >> /v/order"], volumeMounts: [{name: v, mountPath: /v}]}
  containers:
    - {name: main, image: %[1]s, command: [sh, -c, "echo main >> /v/order; sleep 100000"], volumeMounts: [{name: v, mountPath: /v}]}
`, testbed.BusyboxImage))
		n.start()
		main := n.awaitRunning("p")
		n.awaitExec(main, "a\nb\nc\nmain", "cat", "/v/order") // b at its second try
		p := n.awaitReady("p")
		for i, want := range []int32{0, 1, 0} {
			if got := p.Status.InitContainerStatuses[i].RestartCount; got != want {
				t.Errorf("%s was restarted %d times, want %d", p.Status.InitContainerStatuses[i].Name, got, want)
			}
		}
	})
}

// The first restart is immediate, the second comes after 10 s.
func TestCrashLoopBackOff(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", scriptPod("p", "one", 1, "exit 7"))
		n.start()
		p := n.awaitStatus("p", "CrashLoopBackOff", func(p v1.Pod) error {
			c := p.Status.ContainerStatuses
			if len(c) != 1 || c[0].State.Waiting == nil || c[0].State.Waiting.Reason != "CrashLoopBackOff" || c[0].RestartCount < 1 {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		before := p.Status.ContainerStatuses[0]
		last := before.LastTerminationState.Terminated
		if last == nil || last.ExitCode != 7 {
			t.Fatalf("last termination is %+v, want exit code 7", last)
		}
		p = n.awaitStatus("p", "the next start time", func(p v1.Pod) error {
			if got := p.Status.ContainerStatuses[0].RestartCount; got <= before.RestartCount {
				return fmt.Errorf("%d restarts", got)
			}
			return nil
		})
		// The unit tests of the back-off show that it is not later.
		gap, backOff := startedAt(p.Status.ContainerStatuses[0]).Sub(last.FinishedAt.Time), 10*time.Second<<(before.RestartCount-1)
		t.Logf("restarted %v after its end, with a back-off of %v", gap, backOff)
		if gap < backOff-time.Second {
			t.Errorf("restarted %v after its end, want %v", gap, backOff)
		}
		// A changed manifest starts immediately, whatever the back-off.
		n.writeManifest("p.yaml", sleepPod("p", "fixed"))
		n.awaitStatus("p", "runs the fixed revision", func(now v1.Pod) error {
			c := now.Status.ContainerStatuses
			if now.UID == p.UID || len(c) != 1 {
				return fmt.Errorf("%s %+v", now.UID, c)
			}
			if w := c[0].State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
				t.Fatalf("the fixed manifest waits: %+v", c)
			}
			if !c[0].Ready {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
	})
}

// startedAt returns when the newest instance of a container started.
func startedAt(c v1.ContainerStatus) time.Time {
	switch {
	case c.State.Running != nil:
		return c.State.Running.StartedAt.Time
	case c.State.Terminated != nil:
		return c.State.Terminated.StartedAt.Time
	case c.LastTerminationState.Terminated != nil:
		return c.LastTerminationState.Terminated.StartedAt.Time
	}
	return time.Time{}
}

func TestRestartPolicies(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		manifest := func(name, policy, script string) string {
			return strings.Replace(scriptPod(name, "x", 1, script), "spec:\n", "spec:\n  restartPolicy: "+policy+"\n", 1)
		}
		n.writeManifest("done.yaml", manifest("done", "OnFailure", "exit 0"))
		n.writeManifest("failed.yaml", manifest("failed", "Never", "exit 4"))
		n.start()
		n.awaitPhase("done", v1.PodSucceeded)
		p := n.awaitPhase("failed", v1.PodFailed)
		if got := p.Status.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != 4 {
			t.Errorf("state is %+v, want exit code 4", p.Status.ContainerStatuses[0].State)
		}
		// Neither is started again when the daemon restarts.
		n.restart()
		for name, phase := range map[string]v1.PodPhase{"done": v1.PodSucceeded, "failed": v1.PodFailed} {
			p := n.awaitPhase(name, phase)
			if got := p.Status.ContainerStatuses[0].RestartCount; got != 0 {
				t.Errorf("%s was restarted %d times", name, got)
			}
		}
	})
}
