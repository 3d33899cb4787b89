package pressure

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// OOM kills are reported: of a container that exits because of one, of a process in a
// container that keeps running, and of the node when the memory of all pods is used up.
func TestKernelOOMIsReported(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("memory") {
			return
		}
		leaks := func(name, command, more string) string {
			return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  containers: [{name: main, image: %s, command: [sh, -c, %q], %s}]
`, name, testbed.BusyboxImage, command, more)
		}
		const leak, limit = "tail -c 400m /dev/zero", "resources: {limits: {memory: 30Mi}}"
		capacity := cgroup.Capacity()
		// Without a threshold of memory: on a busy host the eviction is faster than the kernel.
		n.Args = []string{"--system-reserved", fmt.Sprintf("memory=%d", capacity.Memory().Value()-220<<20), "--eviction-hard",
			"nodefs.available<1%"}
		n.WriteManifest("ends.yaml", leaks("ends", "exec "+leak, limit))
		// The kernel limits the rate of the lines that name the container, for all
		// processes of the host. So this one is killed again and again.
		n.WriteManifest("goes.yaml", leaks("goes", "while true; do "+leak+"; sleep 6; done", limit))
		n.MustStart()
		hasOOMEvent := func(name, reason string, words ...string) error {
			events, err := n.Events(name)
			if err != nil {
				return err
			}
			for _, w := range words {
				if !strings.Contains(events[reason].Message, w) {
					return fmt.Errorf("%q is not in %q", w, events[reason].Message)
				}
			}
			return nil
		}
		awaitOOMEvent := func(name, reason string, words ...string) {
			t.Helper()
			n.Await(fmt.Sprintf("event %s of %q", reason, name), func() error { return hasOOMEvent(name, reason, words...) })
		}
		begun, attempts := time.Now(), 0
		n.Await("the reason is OOMKilled, and an event says so", func() error {
			// If the kernel did not print the lines: once more, as another revision.
			if time.Since(begun) > 45*time.Second {
				attempts++
				begun = time.Now()
				n.WriteManifest("ends.yaml", leaks("ends", fmt.Sprintf(": %d; exec %s", attempts, leak), limit))
			}
			p, err := n.Pod("ends")
			if err != nil {
				return err
			}
			if c := p.Status.ContainerStatuses; len(c) != 1 || c[0].State.Terminated == nil ||
				c[0].State.Terminated.Reason != "OOMKilled" || c[0].State.Terminated.ExitCode != 137 {
				return fmt.Errorf("%+v", c)
			}
			return hasOOMEvent("ends", "OOMKilling", "killed process tail of container main", "memory limit")
		})
		if cgroup.DetectSettings().V2 {
			t.Log("here the kernel kills all processes of a container together")
		} else {
			n.AwaitRunning("goes")
		}
		awaitOOMEvent("goes", "OOMKilling", "killed process tail of container main")
		if events, err := n.Events(""); err != nil || events["SystemOOM"].Reason != "" {
			t.Errorf("pods that reach their own limits must not cause an event of the node: %v, %v", events["SystemOOM"], err)
		}
		n.WriteManifest("all.yaml", leaks("all", "exec "+leak, "tty: false"))
		awaitOOMEvent("", "SystemOOM", "victim process: tail, pid: ", "of container main in pod default/all")
	})
}
