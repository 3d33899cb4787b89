package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

// eventLog is a directory of the host, mounted at /v, in which containers append a line for
// each thing that they do.
type eventLog struct {
	n   *node
	dir string
}

// newEventLog returns an empty log.
func newEventLog(n *node) eventLog { return eventLog{n, n.t.TempDir()} }

// lines returns the lines written so far.
func (d eventLog) lines() []string {
	text, err := os.ReadFile(filepath.Join(d.dir, "events"))
	if err != nil && !os.IsNotExist(err) {
		d.n.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// await waits until exactly these lines were written.
func (d eventLog) await(want ...string) {
	d.n.t.Helper()
	d.n.await("the event log is complete", func() error {
		if got := d.lines(); !slices.Equal(got, want) {
			return fmt.Errorf("it has %q, want %q", got, want)
		}
		return nil
	})
}

// touch creates a file that containers wait for.
func (d eventLog) touch(name string) {
	d.n.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), nil, 0o600); err != nil {
		d.n.t.Fatal(err)
	}
}

// pod returns a manifest. Each container is a name, a script and additional fields; init
// containers first.
func (d eventLog) pod(name, policy string, init, regular [][3]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  restartPolicy: %s\n  terminationGracePeriodSeconds: 300\n"+
		"  volumes: [{name: v, hostPath: {path: %q}}]\n", name, policy, d.dir)
	for key, list := range map[string][][3]string{"initContainers": init, "containers": regular} {
		if len(list) > 0 {
			fmt.Fprintf(&b, "  %s:\n", key)
		}
		for _, c := range list {
			fmt.Fprintf(&b, "    - {name: %s, image: %s, command: [sh, -c, %q], volumeMounts: [{name: v, mountPath: /v}]%s}\n", c[0], testbed.BusyboxImage, c[1], c[2])
		}
	}
	return b.String()
}

// appendLine returns a command that appends a line to the event log.
func appendLine(line string) string { return "echo " + line + " >> /v/events; " }

// runUntilTerm returns a script that runs until SIGTERM and records the signal.
func runUntilTerm(line string) string {
	return "trap '" + appendLine(line) + "exit 0' TERM; sleep 100000 & wait"
}

// restarts returns the restart counts by container name.
func restarts(p v1.Pod) map[string]int32 {
	counts := map[string]int32{}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		counts[c.Name] = c.RestartCount
	}
	return counts
}

// A job with a sidecar: the other containers wait for the sidecar's startup probe, the sidecar
// restarts when it dies although the pod's restart policy is Never, and it terminates when the
// job has completed.
func TestSidecarOfAJob(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		d := newEventLog(n)
		n.writeManifest("p.yaml", d.pod("p", "Never", [][3]string{
			{"side", appendLine("side") + "sleep 1.5; touch /tmp/up; " + appendLine("up") + runUntilTerm("side-ends"),
				", restartPolicy: Always, startupProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1000}" +
					", readinessProbe: {exec: {command: [test, '!', -e, /v/unready]}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1}"},
			{"init", appendLine("init"), ""},
		}, [][3]string{
			{"main", appendLine("main") + "until test -e /v/done; do sleep 0.1; done; " + appendLine("main-ends"), ""},
		}))
		n.start()
		main := n.awaitRunning("p")
		d.await("side", "up", "init", "main")
		n.awaitReady("p")
		// The sidecar's readiness counts for the pod's.
		d.touch("unready")
		n.awaitStatus("p", "not ready", func(p v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.ContainersReady && c.Message == "containers with unready status: [side]" {
					return nil
				}
			}
			return fmt.Errorf("conditions %+v", p.Status.Conditions)
		})
		if err := os.Remove(filepath.Join(d.dir, "unready")); err != nil {
			t.Fatal(err)
		}
		first := n.awaitContainer("p", "side")
		if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		n.awaitStatus("p", "the sidecar runs again", func(p v1.Pod) error {
			s := p.Status.InitContainerStatuses
			if len(s) != 2 || s[0].State.Running == nil || s[0].Started == nil || !*s[0].Started || s[0].RestartCount != 1 ||
				s[0].LastTerminationState.Terminated == nil || s[0].LastTerminationState.Terminated.ExitCode != 137 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		n.awaitReady("p")
		n.mustStillRun("p", main)
		d.await("side", "up", "init", "main", "side", "up")
		d.touch("done")
		n.awaitPhase("p", v1.PodSucceeded)
		n.awaitGone("p")
		want := []string{"side", "up", "init", "main", "side", "up", "main-ends", "side-ends"}
		d.await(want...)
		n.restart()
		p := n.awaitPhase("p", v1.PodSucceeded)
		if got := restarts(p); got["side"] != 1 || got["init"] != 0 || got["main"] != 0 {
			t.Errorf("restarts %v", got)
		}
		d.await(want...)
	})
}

// A pod that loses its sandbox runs all containers again in the new one, in order.
func TestInitAndSidecarsRerunInANewSandbox(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		d := newEventLog(n)
		n.writeManifest("p.yaml", d.pod("p", "Always", [][3]string{
			{"init", appendLine("init"), ""},
			{"side", appendLine("side") + "touch /tmp/up; " + runUntilTerm("side-ends"),
				", restartPolicy: Always, startupProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, timeoutSeconds: 300, failureThreshold: 1000}"},
			{"late", appendLine("late"), ""},
		}, [][3]string{{"main", appendLine("main") + runUntilTerm("main-ends"), ""}}))
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")
		d.await("init", "side", "late", "main")
		all, err := n.sandboxes("p")
		if err != nil || len(all) != 1 {
			t.Fatalf("sandboxes: %v, %v", all, err)
		}
		pid, err := n.rt.CRI.SandboxPid(t.Context(), all[0].Id)
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.awaitOther("p", first)
		p := n.awaitReady("p")
		n.await("all containers have run again in order", func() error {
			got := slices.DeleteFunc(d.lines(), func(line string) bool { return strings.HasSuffix(line, "-ends") })
			if want := []string{"init", "side", "late", "main", "init", "side", "late", "main"}; !slices.Equal(got, want) {
				return fmt.Errorf("the event log has %q, want %q", got, want)
			}
			return nil
		})
		for name, count := range restarts(p) {
			if count != 1 {
				t.Errorf("%s was restarted %d times, want once", name, count)
			}
		}
		if all, err = n.sandboxes("p"); err != nil || !slices.ContainsFunc(all, func(s *runtimeapi.PodSandbox) bool { return s.Metadata.Attempt == 1 }) {
			t.Errorf("sandboxes: %v, %v, want one with attempt 1", all, err)
		}
	})
}

// failOnce returns a script that does one thing the first time and another from then on.
func failOnce(name, first, then string) string {
	return "if test -e /v/" + name + "; then " + then + "; else touch /v/" + name + "; " + first + "; fi"
}

func TestContainerRestartPolicies(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		d := newEventLog(n)
		n.writeManifest("p.yaml", d.pod("p", "Never", [][3]string{
			{"init", failOnce("init", "exit 1", "exit 0"), ", restartPolicy: OnFailure"},
		}, [][3]string{
			{"always", failOnce("always", "exit 0", "sleep 100000"), ", restartPolicy: Always"},
			{"onfailure", failOnce("onfailure", "exit 1", "exit 0"), ", restartPolicy: OnFailure"},
			{"never", "exit 1", ", restartPolicy: Never"},
			{"pods", "exit 1", ""},
		}))
		n.writeManifest("failed.yaml", d.pod("failed", "Always", [][3]string{{"init", "exit 3", ", restartPolicy: Never"}}, [][3]string{{"main", "exit 0", ""}}))
		n.start()
		p := n.awaitStatus("p", "each container follows its policy", func(p v1.Pod) error {
			want := map[string]int32{"init": 1, "always": 1, "onfailure": 1, "never": 0, "pods": 0}
			if got := restarts(p); !maps.Equal(got, want) {
				return fmt.Errorf("restarts %v, want %v", got, want)
			}
			for _, c := range p.Status.ContainerStatuses {
				if (c.State.Running != nil) != (c.Name == "always") || c.State.Waiting != nil {
					return fmt.Errorf("%s is %+v", c.Name, c.State)
				}
			}
			return nil
		})
		if p.Status.Phase != v1.PodRunning {
			t.Errorf("phase %s", p.Status.Phase)
		}
		n.awaitPhase("failed", v1.PodFailed)
	})
}

func TestRestartRules(t *testing.T) {
	rules := func(action string, codes string) string {
		return ", restartPolicy: Never, restartPolicyRules: [{action: " + action + ", exitCodes: {operator: In, values: [" + codes + "]}}]"
	}
	onEachRuntime(t, func(t *testing.T, n *node) {
		one := newEventLog(n)
		n.writeManifest("one.yaml", one.pod("one", "Never", nil, [][3]string{{"main", failOnce("a", "exit 42", "exit 3"), rules("Restart", "42, 43")}}))
		all := newEventLog(n)
		n.writeManifest("all.yaml", all.pod("all", "Never", [][3]string{
			{"init", appendLine("init"), ""},
			{"side", untilTerm, ", restartPolicy: Always"},
		}, [][3]string{
			{"main", appendLine("main") + failOnce("b", "until test -e /v/go; do sleep 0.1; done; exit 42", "sleep 100000"), rules("RestartAllContainers", "42")},
			{"other", untilTerm, ""},
			{"done", "exit 0", ""},
		}))
		n.start()
		failed := n.awaitPhase("one", v1.PodFailed)
		if c := failed.Status.ContainerStatuses[0]; c.RestartCount != 1 || c.State.Terminated == nil || c.State.Terminated.ExitCode != 3 {
			t.Errorf("status %+v", c)
		}

		before := n.awaitStatus("all", "it runs", func(p v1.Pod) error {
			if p.Status.Phase != v1.PodRunning || len(restarts(p)) != 5 {
				return fmt.Errorf("phase %s, %v", p.Status.Phase, restarts(p))
			}
			return nil
		})
		other := n.awaitContainer("all", "other")
		all.touch("go")
		after := n.awaitStatus("all", "all have restarted", func(p v1.Pod) error {
			for _, count := range restarts(p) {
				if count != 1 {
					return fmt.Errorf("restarts %v", restarts(p))
				}
			}
			for _, c := range p.Status.Conditions {
				if c.Type == v1.AllContainersRestarting && c.Status != v1.ConditionFalse {
					return fmt.Errorf("condition %+v", c)
				}
			}
			for _, c := range p.Status.ContainerStatuses {
				if (c.State.Running == nil) != (c.Name == "done") || c.State.Waiting != nil {
					return fmt.Errorf("%s is %+v", c.Name, c.State)
				}
				if c.LastTerminationState.Terminated == nil || c.Name == "main" && c.LastTerminationState.Terminated.ExitCode != 42 {
					return fmt.Errorf("%s was %+v", c.Name, c.LastTerminationState)
				}
			}
			return nil
		})
		all.await("init", "main", "init", "main")
		if processExists(other.Pid) {
			t.Error("a process of the previous instance still runs")
		}
		sandboxes, err := n.sandboxes("all")
		if err != nil || len(sandboxes) != 1 || after.Status.PodIP != before.Status.PodIP {
			t.Errorf("sandboxes %v, %v, want the previous one", sandboxes, err)
		}
		log := fmt.Sprintf("%s/default_%s_%s/main/0.log", n.PodLogs, after.Name, after.UID)
		if _, err := os.Stat(log); err != nil {
			t.Errorf("the log from before the restart: %v", err)
		}
	})
}

// endedAt returns when the newest instance of a container ended, zero if it was not seen after its
// end.
func endedAt(c v1.ContainerStatus) time.Time {
	switch {
	case c.State.Terminated != nil:
		return c.State.Terminated.FinishedAt.Time
	case c.State.Waiting != nil && c.LastTerminationState.Terminated != nil:
		return c.LastTerminationState.Terminated.FinishedAt.Time
	}
	return time.Time{}
}

// The node has a maximum crash-loop back-off, and a pod can have its own.
func TestCrashLoopCap(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.Args = append(n.Args, "--max-container-restart-period", "4s")
		n.writeManifest("node.yaml", scriptPod("node", "x", 1, "exit 7"))
		n.writeManifest("own.yaml", strings.Replace(scriptPod("own", "x", 1, "exit 7"), "metadata:\n",
			"metadata:\n  annotations: {podstead.io/max-container-restart-period: 1s}\n", 1))
		n.start()
		for name, limit := range map[string]string{"own": "1s", "node": "4s"} {
			p := n.awaitStatus(name, "three restarts, and the maximum back-off is reported", func(p v1.Pod) error {
				c := p.Status.ContainerStatuses
				if len(c) != 1 || c[0].RestartCount < 3 || c[0].State.Waiting == nil || !strings.HasPrefix(c[0].State.Waiting.Message, "back-off "+limit+" ") {
					return fmt.Errorf("%+v", c)
				}
				return nil
			})
			// Without the maximum the next restart would come after 40 s, and each later one after
			// more. On a busy machine some are late.
			before := p.Status.ContainerStatuses[0]
			n.await(name+" is restarted soon", func() error {
				p, err := n.pod(name)
				if err != nil {
					return err
				}
				last, next := before, p.Status.ContainerStatuses[0]
				before = next
				if next.RestartCount == last.RestartCount {
					return errors.New("it is not restarted")
				}
				gap := startedAt(next).Sub(endedAt(last))
				if next.RestartCount != last.RestartCount+1 || endedAt(last).IsZero() || gap < 0 || gap > 30*time.Second {
					return fmt.Errorf("restart %d comes %s after the end of instance %d", next.RestartCount, gap, last.RestartCount)
				}
				return nil
			})
		}
	})
}

// A pod whose init container fails is Failed when its sidecar has exited, and not before: who
// sees the phase takes its resources for free.
func TestFailedInitWaitsForTheSidecar(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		d := newEventLog(n)
		manifest := d.pod("p", "Never", [][3]string{
			{"side", "trap '" + appendLine("term") + "until [ -e /v/go ]; do sleep 0.05; done; exit 0' TERM; " + appendLine("side") + "while :; do sleep 0.05; done", ", restartPolicy: Always"},
			{"init", "until [ -e /v/events ]; do sleep 0.05; done; exit 1", ""},
		}, [][3]string{{"main", "true", ""}})
		n.writeManifest("p.yaml", manifest)
		n.start()
		d.await("side", "term")
		side := n.awaitContainer("p", "side")
		if p, err := n.pod("p"); err != nil || p.Status.Phase != v1.PodPending {
			t.Errorf("while its sidecar terminates: %s (%v)", p.Status.Phase, err)
		}
		// A daemon that is started meanwhile reports the same.
		n.restart()
		n.awaitStatus("p", "the new daemon has a status", func(p v1.Pod) error {
			if p.Status.Phase != v1.PodPending || len(p.Status.InitContainerStatuses) != 2 || p.Status.InitContainerStatuses[1].State.Terminated == nil {
				return fmt.Errorf("%+v", p.Status)
			}
			return nil
		})
		if found, err := n.running("p"); err != nil || found["side"].ID != side.ID {
			t.Errorf("the sidecar has ended: %v (%v)", found, err)
		}
		d.touch("go")
		n.awaitPhase("p", v1.PodFailed)
		if found, err := n.running("p"); err != nil || len(found) > 0 {
			t.Errorf("still running: %v (%v)", found, err)
		}
	})
}
