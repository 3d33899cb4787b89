package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// After a power loss no container runs, and the runtime has only dead sandboxes. Running pods
// start in a new sandbox, init containers and sidecars first and in order. Completed pods, and
// pods that may not restart, are not started.
func TestHostRestart(t *testing.T) {
	onEachPrivateRuntime(t, func(t *testing.T, n *node) {
		d, once := newEventLog(n), newEventLog(n)
		n.writeManifest("p.yaml", d.pod("p", "Always", [][3]string{
			{"init", appendLine("init"), ""},
			{"side", appendLine("side") + "touch /tmp/up; " + runUntilTerm("side-ends"),
				", restartPolicy: Always, startupProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1000}"},
			{"late", appendLine("late"), ""},
		}, [][3]string{{"main", appendLine("main") + runUntilTerm("main-ends"), ""}}))
		n.writeManifest("job.yaml", once.pod("job", "OnFailure", nil, [][3]string{{"main", appendLine("job"), ""}}))
		n.start()
		n.awaitPhase("job", v1.PodSucceeded)
		// Not in parallel: two containers write to the same event log.
		n.writeManifest("never.yaml", once.pod("never", "Never", nil, [][3]string{{"main", appendLine("never") + runUntilTerm("never-ends"), ""}}))
		first := n.awaitRunning("p")
		n.awaitReady("p")
		n.awaitReady("never")
		// A container is running before its first command has executed.
		lines := []string{"init", "side", "late", "main"}
		d.await(lines...)
		once.await("job", "never")

		pids := n.allPids()
		n.Kill()
		n.rt.Kill()
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
		if err := n.rt.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.start()
		n.awaitOther("p", first)
		p := n.awaitReady("p")
		d.await(append(lines, lines...)...)
		for name, count := range restarts(p) {
			if count != 1 {
				t.Errorf("%s was restarted %d times, want once", name, count)
			}
		}
		all, err := n.sandboxes("p")
		ready := slices.DeleteFunc(all, func(s *runtimeapi.PodSandbox) bool { return s.State != runtimeapi.PodSandboxState_SANDBOX_READY })
		if err != nil || len(ready) != 1 || ready[0].Metadata.Attempt != 1 {
			t.Errorf("ready sandboxes: %v, %v, want one with attempt 1", ready, err)
		}
		n.awaitPhase("never", v1.PodFailed)
		n.awaitPhase("job", v1.PodSucceeded)
		once.await("job", "never")
	})
}

// allPids returns the first processes of all sandboxes and containers of the runtime, and
// their shims.
func (n *node) allPids() []int {
	n.t.Helper()
	var pids []int
	sandboxes, err := n.rt.CRI.Sandboxes(n.t.Context(), "", "")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, s := range sandboxes {
		if s.State != runtimeapi.PodSandboxState_SANDBOX_READY {
			continue
		}
		pid, err := n.rt.CRI.SandboxPid(n.t.Context(), s.Id)
		if err != nil {
			n.t.Fatal(err)
		}
		pids = append(pids, parentOf(n.t, pid), pid)
	}
	containers, err := n.rt.CRI.Containers(n.t.Context(), "", "")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, c := range containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		pid, err := n.rt.CRI.Pid(n.t.Context(), c.Id)
		if err != nil {
			n.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) == 0 {
		n.t.Fatal("no container runs")
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
