package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// killSandbox kills all processes of a pod's only sandbox, as a power cut does, and
// returns the sandbox's ID.
func killSandbox(n *harness.Node, name string) string {
	n.T.Helper()
	list, err := n.Sandboxes(name)
	if err != nil || len(list) != 1 {
		n.T.Fatalf("sandboxes of %s: %v, %v", name, list, err)
	}
	id := list[0].Id
	pid, err := n.Runtime.CRI.SandboxPid(n.T.Context(), id)
	if err != nil {
		n.T.Fatal(err)
	}
	main := n.AwaitRunning(name)
	for _, p := range []int{main.Pid, pid} {
		if err := syscall.Kill(p, syscall.SIGKILL); err != nil {
			n.T.Fatal(err)
		}
	}
	n.Await("the runtime reports the sandbox as dead", func() error {
		list, err := n.Sandboxes(name)
		if err == nil && list[0].State == runtimeapi.PodSandboxState_SANDBOX_READY {
			err = fmt.Errorf("%s is ready", id)
		}
		return err
	})
	return id
}

// A power cut leaves an empty result file of the CNI plugins, because of which
// containerd 1.6 can never stop the dead sandbox: the pod runs in a new one, and an event reports
// why. A removed pod frees its name, and shows why it stays.
func TestEmptyCNIResultKeepsNoPodDown(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.Kill()
		id := killSandbox(n, "p")
		results, err := filepath.Glob("/var/lib/cni/results/*-" + id + "-eth0")
		if err != nil || len(results) != 1 {
			t.Fatalf("CNI results of sandbox %s: %v, %v", id, results, err)
		}
		result, err := os.ReadFile(results[0])
		if err != nil {
			t.Fatal(err)
		}
		// As long as it is empty, not even the test can remove the sandbox.
		if err := os.Truncate(results[0], 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.WriteFile(results[0], result, 0o600) })
		_, stuck := n.Runtime.CRI.Runtime.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		if (stuck != nil) != (n.Runtime.Kind == testbed.Containerd16) {
			t.Fatalf("%s stops the sandbox with: %v", n.Runtime.Kind, stuck)
		}
		n.MustStart()
		second := n.AwaitOther("p", first)
		if stuck == nil {
			return // this runtime ignores the empty file
		}
		n.Await("an event says why", func() error {
			events, err := n.Events("p")
			if e := events["FailedKillPod"]; err != nil || e.Type != v1.EventTypeWarning ||
				!strings.Contains(e.Message, "unexpected end of JSON input") {
				return fmt.Errorf("event %+v, %v", e, err)
			}
			return nil
		})
		n.AwaitReady("p")
		n.WriteManifest("p.yaml", harness.SleepPod("p", "two"))
		n.AwaitOther("p", second)
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		n.Await("the pod that cannot be removed is shown with the reason", func() error {
			body, err := n.Get(t.Context(), "/pods")
			if err == nil && !(strings.Contains(string(body), "FailedKillPod") &&
				strings.Contains(string(body), "unexpected end of JSON input")) {
				err = fmt.Errorf("pods: %s", body)
			}
			return err
		})
		if err := os.WriteFile(results[0], result, 0o600); err != nil {
			t.Fatal(err)
		}
		n.Await("nothing is left", func() error {
			list, err := n.Sandboxes("p")
			if err == nil && len(list) > 0 {
				err = fmt.Errorf("sandboxes %v", list)
			}
			return err
		})
	})
}

// A podstead with another root directory and the same manifest has the same UID: its
// running pod is left alone and named. Once that is dead it keeps no pod down, although
// the runtime keeps its names.
func TestPodOfAnotherRootDirectory(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		theirs := n.AwaitRunning("p")
		n.AwaitReady("p")
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		foreign, err := n.Sandboxes("p")
		if err != nil || len(foreign) != 1 {
			t.Fatalf("sandboxes %v, %v", foreign, err)
		}
		n.Root, n.PodLogs, n.ContainerLogs = n.Root+"-other", n.PodLogs+"-other", n.ContainerLogs+"-other"
		n.MustStart()
		n.AwaitStatus("p", "it waits and names the other sandbox", func(p v1.Pod) error {
			text, err := json.Marshal(p.Status)
			if err == nil && !strings.Contains(string(text), foreign[0].Id[:12]) {
				err = fmt.Errorf("status does not name sandbox %s: %s", foreign[0].Id, text)
			}
			return err
		})
		n.MustStillRun("p", theirs)
		if id := killSandbox(n, "p"); id != foreign[0].Id {
			t.Fatalf("sandbox %s was killed, not %s", id, foreign[0].Id)
		}
		ours := n.AwaitOther("p", theirs)
		n.AwaitReady("p")
		// Their remains are left alone, also when ours ends.
		n.WriteManifest("p.yaml", harness.SleepPod("p", "two"))
		n.AwaitOther("p", ours)
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		n.Await("only the other podstead's sandbox is left", func() error {
			list, err := n.Sandboxes("p")
			if err == nil && (len(list) != 1 || list[0].Id != foreign[0].Id) {
				err = fmt.Errorf("sandboxes %v", list)
			}
			return err
		})
	})
}
