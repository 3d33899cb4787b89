package pods

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

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

func TestStartEditRemove(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		first := n.AwaitRunning("p")
		if got := n.Exec(first, "sh", "-c", "echo $WORD"); got != "one" {
			t.Fatalf("WORD is %q, want one", got)
		}
		status := n.AwaitReady("p")
		if got := status.Status.PodIP; !strings.HasPrefix(got, "10.211.") {
			t.Errorf("podIP is %q, want one of the test bed's network", got)
		}
		if got := status.Status.ContainerStatuses[0].ContainerID; got != "containerd://"+first.ID {
			t.Errorf("containerID is %q, want containerd://%s", got, first.ID)
		}

		n.WriteManifest("p.yaml", harness.SleepPod("p", "two"))
		second := n.AwaitOther("p", first)
		if got := n.Exec(second, "sh", "-c", "echo $WORD"); got != "two" {
			t.Fatalf("WORD is %q after the edit, want two", got)
		}
		if harness.ProcessExists(first.Pid) {
			t.Errorf("the first revision still runs as %d", first.Pid)
		}

		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		n.Await("the pod has left /pods", func() error {
			if _, err := n.Pod("p"); err == nil {
				return errors.New("it is still reported")
			}
			return nil
		})
		n.Await("its sandboxes, logs and directory are removed", func() error {
			if all, err := n.Sandboxes("p"); err != nil || len(all) > 0 {
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
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		second := n.AwaitOther("p", first)
		if second.Attempt != first.Attempt+1 {
			t.Errorf("attempt is %d after %d", second.Attempt, first.Attempt)
		}
		status := n.AwaitStatus("p", "one restart", func(p v1.Pod) error {
			c := p.Status.ContainerStatuses
			if len(c) != 1 || c[0].RestartCount != 1 || c[0].State.Running == nil ||
				c[0].LastTerminationState.Terminated == nil {
				return fmt.Errorf("container statuses are %+v", c)
			}
			return nil
		})
		if got := status.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode; got != 137 {
			t.Errorf("last exit code is %d, want 137", got)
		}
		if all, err := n.Sandboxes("p"); err != nil || len(all) != 1 {
			t.Errorf("sandboxes: %v, %v, want the previous one", all, err)
		}
	})
}

// A sandbox whose pause process dies stops its pod; a new sandbox is created.
func TestKilledSandboxIsReplaced(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		first := n.AwaitRunning("p")
		all, err := n.Sandboxes("p")
		if err != nil || len(all) != 1 {
			t.Fatalf("sandboxes: %v, %v", all, err)
		}
		// The daemon may notice the end of the sandbox while this call still removes its
		// network, and do the same; then one of the two gets an error.
		if _, err := n.Runtime.CRI.Runtime.StopPodSandbox(t.Context(),
			&runtimeapi.StopPodSandboxRequest{PodSandboxId: all[0].Id}); err != nil {
			t.Logf("stopping the sandbox: %v", err)
		}
		n.AwaitOther("p", first)
		n.Await("one ready sandbox", func() error {
			ready := 0
			all, err := n.Sandboxes("p")
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
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.WriteManifest("probe.yaml", harness.SleepPod("probe", "0"))
		n.MustStart()
		first, probe := n.AwaitRunning("p"), n.AwaitRunning("probe")
		hash := n.AwaitReady("p").Annotations["kubernetes.io/config.hash"]
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
			func() { n.WriteManifest("p.yaml", harness.SleepPod("p", "one")) },
			func() { n.WriteManifest("p.yaml", reordered) },
			func() {
				if err := os.Rename(n.Manifests+"/p.yaml", n.Manifests+"/renamed.yml"); err != nil {
					t.Fatal(err)
				}
			},
		} {
			step()
			// The other pod's replacement proves that the directory was scanned after the
			// step.
			n.WriteManifest("probe.yaml", harness.SleepPod("probe", fmt.Sprint(i+1)))
			probe = n.AwaitOther("probe", probe)
			n.MustStillRun("p", first)
		}
		if got := n.AwaitReady("p").Annotations["kubernetes.io/config.hash"]; got != hash {
			t.Errorf("config.hash went from %s to %s", hash, got)
		}
	})
}

// The second edit comes while the previous revision still terminates after the first: the old
// revision gets its grace period once, the intermediate one never starts, the newest runs.
func TestTwoEditsWithinGrace(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", n.ScriptedPod("p", 900, "",
			harness.ScriptedContainer{Name: "main", Script: exitOnFile, Fields: ""}))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitRecorded("p-main-start")
		n.WriteManifest("p.yaml", harness.SleepPod("p", "two"))
		n.AwaitRecorded("p-main-ending")
		n.WriteManifest("p.yaml", harness.SleepPod("p", "three"))
		n.WriteManifest("probe.yaml", harness.SleepPod("probe", "one"))
		n.AwaitRunning("probe") // so that the previous edit was detected too
		n.MustStillRun("p", first)
		allowExit(n, "go")
		third := n.AwaitOther("p", first)
		if got := n.Exec(third, "sh", "-c", "echo $WORD"); got != "three" {
			t.Errorf("WORD is %q, want three", got)
		}
		if _, ended := n.RecordedAt("p-main-ended"); !ended {
			t.Error("the old revision did not get its grace period")
		}
		n.Await("only the new sandbox is left", func() error {
			all, err := n.Sandboxes("p")
			if err != nil || len(all) != 1 {
				return fmt.Errorf("%v, %v", all, err)
			}
			return nil
		})
	})
}

// exitOnFile is a script for ScriptedPod. It records SIGTERM and exits once the file "go"
// exists.
const exitOnFile = "trap 'note ending; until [ -e /out/go ]; do sleep 0.05; done; note ended; exit 0' TERM; note " +
	"start; while true; do sleep 0.05; done"

// allowExit creates a file in the directory that ScriptedPod mounts at /out.
func allowExit(n *harness.Node, name string) {
	n.T.Helper()
	harness.WriteAll(n.T, n.OutDir(), map[string]string{name: ""})
}

// A file that is rewritten by removing and creating it does not count as removed.
func TestRemovedAndAddedAtOnce(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.MustStart()
		for i := 0; ; i++ {
			name, probe := fmt.Sprint("p", i), fmt.Sprint("probe", i)
			n.WriteManifest(name+".yaml", harness.SleepPod(name, "one"))
			n.WriteManifest(probe+".yaml", harness.SleepPod(probe, "one"))
			first := n.AwaitRunning(name)
			n.AwaitRunning(probe)
			begun := time.Now()
			n.RemoveManifest(name + ".yaml")
			n.RemoveManifest(probe + ".yaml")
			n.WriteManifest(name+".yaml", harness.SleepPod(name, "one"))
			took := time.Since(begun)
			// Its file was removed at the same moment, and not created again.
			n.AwaitGone(probe)
			if took < 500*time.Millisecond {
				n.MustStillRun(name, first)
				return
			}
			// On a busy machine the test may stall in between.
			t.Logf("the file was away for %s, so it was removed", took)
		}
	})
}

// A pod that is added again while it terminates is started again.
func TestRemovedAndAddedAgainWhileTerminating(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		manifest := n.ScriptedPod("p", 900, "", harness.ScriptedContainer{Name: "main", Script: exitOnFile, Fields: ""})
		n.WriteManifest("p.yaml", manifest)
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitRecorded("p-main-start")
		n.RemoveManifest("p.yaml")
		n.AwaitRecorded("p-main-ending")
		n.WriteManifest("p.yaml", manifest)
		n.WriteManifest("probe.yaml", harness.SleepPod("probe", "one"))
		n.AwaitRunning("probe") // so that the previous edit was detected too
		n.MustStillRun("p", first)
		allowExit(n, "go")
		n.AwaitOther("p", first)
		n.AwaitReady("p")
	})
}

func TestFiftyPods(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const count = 50
		names := make([]string, count)
		for i := range names {
			names[i] = fmt.Sprintf("p%d", i)
			n.WriteManifest(names[i]+".yaml", harness.SleepPod(names[i], "one"))
		}
		n.MustStart()
		n.Await("all pods run", func() error {
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
			n.AwaitRunning(name)
			n.RemoveManifest(name + ".yaml")
		}
		for _, name := range names {
			n.AwaitGone(name)
		}
	})
}

func TestInitContainersRunInOrder(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
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
		n.MustStart()
		main := n.AwaitRunning("p")
		n.AwaitExec(main, "a\nb\nc\nmain", "cat", "/v/order") // b at its second try
		p := n.AwaitReady("p")
		for i, want := range []int32{0, 1, 0} {
			if got := p.Status.InitContainerStatuses[i].RestartCount; got != want {
				t.Errorf("%s was restarted %d times, want %d", p.Status.InitContainerStatuses[i].Name, got, want)
			}
		}
	})
}

// The first restart is immediate, the second comes after 10 s.
func TestCrashLoopBackOff(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.ScriptPod("p", "one", 1, "exit 7"))
		n.MustStart()
		p := n.AwaitStatus("p", "CrashLoopBackOff", func(p v1.Pod) error {
			c := p.Status.ContainerStatuses
			if len(c) != 1 || c[0].State.Waiting == nil || c[0].State.Waiting.Reason != "CrashLoopBackOff" ||
				c[0].RestartCount < 1 {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		before := p.Status.ContainerStatuses[0]
		last := before.LastTerminationState.Terminated
		if last == nil || last.ExitCode != 7 {
			t.Fatalf("last termination is %+v, want exit code 7", last)
		}
		p = n.AwaitStatus("p", "the next start time", func(p v1.Pod) error {
			if got := p.Status.ContainerStatuses[0].RestartCount; got <= before.RestartCount {
				return fmt.Errorf("%d restarts", got)
			}
			return nil
		})
		// The unit tests of the back-off show that it is not later.
		gap, backOff := startedAt(p.Status.ContainerStatuses[0]).Sub(last.FinishedAt.Time),
			10*time.Second<<(before.RestartCount-1)
		t.Logf("restarted %v after its end, with a back-off of %v", gap, backOff)
		if gap < backOff-time.Second {
			t.Errorf("restarted %v after its end, want %v", gap, backOff)
		}
		// A changed manifest starts immediately, whatever the back-off.
		n.WriteManifest("p.yaml", harness.SleepPod("p", "fixed"))
		n.AwaitStatus("p", "runs the fixed revision", func(now v1.Pod) error {
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
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		manifest := func(name, policy, script string) string {
			return strings.Replace(harness.ScriptPod(name, "x", 1, script), "spec:\n", "spec:\n  restartPolicy: "+policy+"\n", 1)
		}
		n.WriteManifest("done.yaml", manifest("done", "OnFailure", "exit 0"))
		n.WriteManifest("failed.yaml", manifest("failed", "Never", "exit 4"))
		n.MustStart()
		n.AwaitPhase("done", v1.PodSucceeded)
		p := n.AwaitPhase("failed", v1.PodFailed)
		if got := p.Status.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != 4 {
			t.Errorf("state is %+v, want exit code 4", p.Status.ContainerStatuses[0].State)
		}
		// Neither is started again when the daemon restarts.
		n.Restart()
		for name, phase := range map[string]v1.PodPhase{"done": v1.PodSucceeded, "failed": v1.PodFailed} {
			p := n.AwaitPhase(name, phase)
			if got := p.Status.ContainerStatuses[0].RestartCount; got != 0 {
				t.Errorf("%s was restarted %d times", name, got)
			}
		}
	})
}
