package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/e2e/harness"
)

// After a power loss no container runs, and the runtime has only dead sandboxes. Running pods
// start in a new sandbox, init containers and sidecars first and in order. Completed pods, and
// pods that may not restart, are not started.
func TestHostRestart(t *testing.T) {
	harness.OnEachPrivateRuntime(t, func(t *testing.T, n *harness.Node) {
		d, once := harness.NewEventLog(n), harness.NewEventLog(n)
		n.WriteManifest("p.yaml", d.Pod("p", "Always", [][3]string{
			{"init", harness.AppendLine("init"), ""},
			{"side", harness.AppendLine("side") + "touch /tmp/up; " + harness.RunUntilTerm("side-ends"),
				", restartPolicy: Always, startupProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, timeoutSeconds: " +
					"300, failureThreshold: 1000}"},
			{"late", harness.AppendLine("late"), ""},
		}, [][3]string{{"main", harness.AppendLine("main") + harness.RunUntilTerm("main-ends"), ""}}))
		n.WriteManifest("job.yaml", once.Pod("job", "OnFailure", nil, [][3]string{{"main", harness.AppendLine("job"), ""}}))
		n.MustStart()
		n.AwaitPhase("job", v1.PodSucceeded)
		// Not in parallel: two containers write to the same event log.
		n.WriteManifest("never.yaml", once.Pod("never", "Never", nil,
			[][3]string{{"main", harness.AppendLine("never") + harness.RunUntilTerm("never-ends"), ""}}))
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		n.AwaitReady("never")
		// A container is running before its first command has executed.
		lines := []string{"init", "side", "late", "main"}
		d.Await(lines...)
		once.Await("job", "never")

		pids := allPids(n)
		n.Kill()
		n.Runtime.Kill()
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
		if err := n.Runtime.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.MustStart()
		n.AwaitOther("p", first)
		p := n.AwaitReady("p")
		d.Await(append(lines, lines...)...)
		for name, count := range harness.Restarts(p) {
			if count != 1 {
				t.Errorf("%s was restarted %d times, want once", name, count)
			}
		}
		all, err := n.Sandboxes("p")
		ready := slices.DeleteFunc(all,
			func(s *runtimeapi.PodSandbox) bool { return s.State != runtimeapi.PodSandboxState_SANDBOX_READY })
		if err != nil || len(ready) != 1 || ready[0].Metadata.Attempt != 1 {
			t.Errorf("ready sandboxes: %v, %v, want one with attempt 1", ready, err)
		}
		n.AwaitPhase("never", v1.PodFailed)
		n.AwaitPhase("job", v1.PodSucceeded)
		once.Await("job", "never")
	})
}

// allPids returns the first processes of all sandboxes and containers of the runtime, and
// their shims.
func allPids(n *harness.Node) []int {
	n.T.Helper()
	var pids []int
	sandboxes, err := n.Runtime.CRI.Sandboxes(n.T.Context(), "", "")
	if err != nil {
		n.T.Fatal(err)
	}
	for _, s := range sandboxes {
		if s.State != runtimeapi.PodSandboxState_SANDBOX_READY {
			continue
		}
		pid, err := n.Runtime.CRI.SandboxPid(n.T.Context(), s.Id)
		if err != nil {
			n.T.Fatal(err)
		}
		pids = append(pids, parentOf(n.T, pid), pid)
	}
	containers, err := n.Runtime.CRI.Containers(n.T.Context(), "", "")
	if err != nil {
		n.T.Fatal(err)
	}
	for _, c := range containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		pid, err := n.Runtime.CRI.Pid(n.T.Context(), c.Id)
		if err != nil {
			n.T.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		n.T.Fatal("no container runs")
	}
	return pids
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	var state string
	parent := 0
	if _, err := fmt.Sscan(rest, &state, &parent); err != nil || parent <= 1 {
		t.Fatalf("parent of %d: %d, %v", pid, parent, err)
	}
	return parent
}
