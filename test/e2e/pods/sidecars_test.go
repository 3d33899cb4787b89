package pods

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

	"github.com/podstead/podstead/test/e2e/harness"
)

// A job with a sidecar: the other containers wait for the sidecar's startup probe, the sidecar
// restarts when it dies although the pod's restart policy is Never, and it terminates when the
// job has completed.
func TestSidecarOfAJob(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		d := harness.NewEventLog(n)
		n.WriteManifest("p.yaml", d.Pod("p", "Never", [][3]string{
			{"side", harness.AppendLine("side") + "sleep 1.5; touch /tmp/up; " + harness.AppendLine("up") +
				harness.RunUntilTerm("side-ends"),
				", restartPolicy: Always, startupProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, timeoutSeconds: " +
					"300, failureThreshold: 1000}" +
					", readinessProbe: {exec: {command: [test, '!', -e, /v/unready]}, periodSeconds: 1, timeoutSeconds: 300, " +
					"failureThreshold: 1}"},
			{"init", harness.AppendLine("init"), ""},
		}, [][3]string{
			{"main", harness.AppendLine("main") + "until test -e /v/done; do sleep 0.1; done; " +
				harness.AppendLine("main-ends"), ""},
		}))
		n.MustStart()
		main := n.AwaitRunning("p")
		d.Await("side", "up", "init", "main")
		n.AwaitReady("p")
		// The sidecar's readiness counts for the pod's.
		d.Touch("unready")
		n.AwaitStatus("p", "not ready", func(p v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.ContainersReady && c.Message == "containers with unready status: [side]" {
					return nil
				}
			}
			return fmt.Errorf("conditions %+v", p.Status.Conditions)
		})
		if err := os.Remove(filepath.Join(d.Dir, "unready")); err != nil {
			t.Fatal(err)
		}
		first := n.AwaitContainer("p", "side")
		if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		n.AwaitStatus("p", "the sidecar runs again", func(p v1.Pod) error {
			s := p.Status.InitContainerStatuses
			if len(s) != 2 || s[0].State.Running == nil || s[0].Started == nil || !*s[0].Started || s[0].RestartCount != 1 ||
				s[0].LastTerminationState.Terminated == nil || s[0].LastTerminationState.Terminated.ExitCode != 137 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		n.AwaitReady("p")
		n.MustStillRun("p", main)
		d.Await("side", "up", "init", "main", "side", "up")
		d.Touch("done")
		n.AwaitPhase("p", v1.PodSucceeded)
		n.AwaitGone("p")
		want := []string{"side", "up", "init", "main", "side", "up", "main-ends", "side-ends"}
		d.Await(want...)
		n.Restart()
		p := n.AwaitPhase("p", v1.PodSucceeded)
		if got := harness.Restarts(p); got["side"] != 1 || got["init"] != 0 || got["main"] != 0 {
			t.Errorf("restarts %v", got)
		}
		d.Await(want...)
	})
}

// A pod that loses its sandbox runs all containers again in the new one, in order.
func TestInitAndSidecarsRerunInANewSandbox(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		d := harness.NewEventLog(n)
		n.WriteManifest("p.yaml", d.Pod("p", "Always", [][3]string{
			{"init", harness.AppendLine("init"), ""},
			{"side", harness.AppendLine("side") + "touch /tmp/up; " + harness.RunUntilTerm("side-ends"),
				", restartPolicy: Always, startupProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1, timeoutSeconds: " +
					"300, failureThreshold: 1000}"},
			{"late", harness.AppendLine("late"), ""},
		}, [][3]string{{"main", harness.AppendLine("main") + harness.RunUntilTerm("main-ends"), ""}}))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		d.Await("init", "side", "late", "main")
		all, err := n.Sandboxes("p")
		if err != nil || len(all) != 1 {
			t.Fatalf("sandboxes: %v, %v", all, err)
		}
		pid, err := n.Runtime.CRI.SandboxPid(t.Context(), all[0].Id)
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.AwaitOther("p", first)
		p := n.AwaitReady("p")
		n.Await("all containers have run again in order", func() error {
			got := slices.DeleteFunc(d.Lines(), func(line string) bool { return strings.HasSuffix(line, "-ends") })
			if want := []string{"init", "side", "late", "main", "init", "side", "late", "main"}; !slices.Equal(got, want) {
				return fmt.Errorf("the event log has %q, want %q", got, want)
			}
			return nil
		})
		for name, count := range harness.Restarts(p) {
			if count != 1 {
				t.Errorf("%s was restarted %d times, want once", name, count)
			}
		}
		if all, err = n.Sandboxes("p"); err != nil ||
			!slices.ContainsFunc(all, func(s *runtimeapi.PodSandbox) bool { return s.Metadata.Attempt == 1 }) {
			t.Errorf("sandboxes: %v, %v, want one with attempt 1", all, err)
		}
	})
}

// failOnce returns a script that does one thing the first time and another from then on.
func failOnce(name, first, then string) string {
	return "if test -e /v/" + name + "; then " + then + "; else touch /v/" + name + "; " + first + "; fi"
}

func TestContainerRestartPolicies(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		d := harness.NewEventLog(n)
		n.WriteManifest("p.yaml", d.Pod("p", "Never", [][3]string{
			{"init", failOnce("init", "exit 1", "exit 0"), ", restartPolicy: OnFailure"},
		}, [][3]string{
			{"always", failOnce("always", "exit 0", "sleep 100000"), ", restartPolicy: Always"},
			{"onfailure", failOnce("onfailure", "exit 1", "exit 0"), ", restartPolicy: OnFailure"},
			{"never", "exit 1", ", restartPolicy: Never"},
			{"pods", "exit 1", ""},
		}))
		n.WriteManifest("failed.yaml",
			d.Pod("failed", "Always", [][3]string{{"init", "exit 3", ", restartPolicy: Never"}},
				[][3]string{{"main", "exit 0", ""}}))
		n.MustStart()
		p := n.AwaitStatus("p", "each container follows its policy", func(p v1.Pod) error {
			want := map[string]int32{"init": 1, "always": 1, "onfailure": 1, "never": 0, "pods": 0}
			if got := harness.Restarts(p); !maps.Equal(got, want) {
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
		n.AwaitPhase("failed", v1.PodFailed)
	})
}

func TestRestartRules(t *testing.T) {
	rules := func(action string, codes string) string {
		return ", restartPolicy: Never, restartPolicyRules: [{action: " + action + ", exitCodes: {operator: In, values: [" +
			codes + "]}}]"
	}
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		one := harness.NewEventLog(n)
		n.WriteManifest("one.yaml", one.Pod("one", "Never", nil,
			[][3]string{{"main", failOnce("a", "exit 42", "exit 3"), rules("Restart", "42, 43")}}))
		all := harness.NewEventLog(n)
		n.WriteManifest("all.yaml", all.Pod("all", "Never", [][3]string{
			{"init", harness.AppendLine("init"), ""},
			{"side", harness.UntilTerm, ", restartPolicy: Always"},
		}, [][3]string{
			{"main", harness.AppendLine("main") + failOnce("b", "until test -e /v/go; do sleep 0.1; done; exit 42",
				"sleep 100000"), rules("RestartAllContainers", "42")},
			{"other", harness.UntilTerm, ""},
			{"done", "exit 0", ""},
		}))
		n.MustStart()
		failed := n.AwaitPhase("one", v1.PodFailed)
		if c := failed.Status.ContainerStatuses[0]; c.RestartCount != 1 || c.State.Terminated == nil ||
			c.State.Terminated.ExitCode != 3 {
			t.Errorf("status %+v", c)
		}

		before := n.AwaitStatus("all", "it runs", func(p v1.Pod) error {
			if p.Status.Phase != v1.PodRunning || len(harness.Restarts(p)) != 5 {
				return fmt.Errorf("phase %s, %v", p.Status.Phase, harness.Restarts(p))
			}
			return nil
		})
		other := n.AwaitContainer("all", "other")
		all.Touch("go")
		after := n.AwaitStatus("all", "all have restarted", func(p v1.Pod) error {
			for _, count := range harness.Restarts(p) {
				if count != 1 {
					return fmt.Errorf("restarts %v", harness.Restarts(p))
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
				if c.LastTerminationState.Terminated == nil || c.Name == "main" &&
					c.LastTerminationState.Terminated.ExitCode != 42 {
					return fmt.Errorf("%s was %+v", c.Name, c.LastTerminationState)
				}
			}
			return nil
		})
		all.Await("init", "main", "init", "main")
		if harness.ProcessExists(other.Pid) {
			t.Error("a process of the previous instance still runs")
		}
		sandboxes, err := n.Sandboxes("all")
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
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Args = append(n.Args, "--max-container-restart-period", "4s")
		n.WriteManifest("node.yaml", harness.ScriptPod("node", "x", 1, "exit 7"))
		n.WriteManifest("own.yaml", strings.Replace(harness.ScriptPod("own", "x", 1, "exit 7"), "metadata:\n",
			"metadata:\n  annotations: {podstead.io/max-container-restart-period: 1s}\n", 1))
		n.MustStart()
		for name, limit := range map[string]string{"own": "1s", "node": "4s"} {
			p := n.AwaitStatus(name, "three restarts, and the maximum back-off is reported", func(p v1.Pod) error {
				c := p.Status.ContainerStatuses
				if len(c) != 1 || c[0].RestartCount < 3 || c[0].State.Waiting == nil ||
					!strings.HasPrefix(c[0].State.Waiting.Message, "back-off "+limit+" ") {
					return fmt.Errorf("%+v", c)
				}
				return nil
			})
			// Without the maximum the next restart would come after 40 s, and each later one after
			// more. On a busy machine some are late.
			before := p.Status.ContainerStatuses[0]
			n.Await(name+" is restarted soon", func() error {
				p, err := n.Pod(name)
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
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		d := harness.NewEventLog(n)
		manifest := d.Pod("p", "Never", [][3]string{
			{"side", "trap '" + harness.AppendLine("term") + "until [ -e /v/go ]; do sleep 0.05; done; exit 0' TERM; " +
				harness.AppendLine("side") + "while :; do sleep 0.05; done", ", restartPolicy: Always"},
			{"init", "until [ -e /v/events ]; do sleep 0.05; done; exit 1", ""},
		}, [][3]string{{"main", "true", ""}})
		n.WriteManifest("p.yaml", manifest)
		n.MustStart()
		d.Await("side", "term")
		side := n.AwaitContainer("p", "side")
		if p, err := n.Pod("p"); err != nil || p.Status.Phase != v1.PodPending {
			t.Errorf("while its sidecar terminates: %s (%v)", p.Status.Phase, err)
		}
		// A daemon that is started meanwhile reports the same.
		n.Restart()
		n.AwaitStatus("p", "the new daemon has a status", func(p v1.Pod) error {
			if p.Status.Phase != v1.PodPending || len(p.Status.InitContainerStatuses) != 2 ||
				p.Status.InitContainerStatuses[1].State.Terminated == nil {
				return fmt.Errorf("%+v", p.Status)
			}
			return nil
		})
		if found, err := n.Running("p"); err != nil || found["side"].ID != side.ID {
			t.Errorf("the sidecar has ended: %v (%v)", found, err)
		}
		d.Touch("go")
		n.AwaitPhase("p", v1.PodFailed)
		if found, err := n.Running("p"); err != nil || len(found) > 0 {
			t.Errorf("still running: %v (%v)", found, err)
		}
	})
}
