package pods

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// The working directory and the standard input of a container.
func TestWorkingDirAndStandardInput(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  containers:
    - {name: main, image: %[1]s, command: [sleep, "100000"], workingDir: /var}
    - {name: none, image: %[1]s, command: [cat]}
    - {name: stdin, image: %[1]s, command: [cat], stdin: true}
    - {name: once, image: %[1]s, command: [cat], stdin: true, stdinOnce: true}
    - {name: tty, image: %[1]s, command: [cat], stdin: true, tty: true}
`, testbed.BusyboxImage))
		n.MustStart()
		if got := n.Exec(n.AwaitRunning("p"), "pwd"); got != "/var" {
			t.Errorf("the working directory is %q, want /var", got)
		}
		n.AwaitStatus("p", "only cat without input has exited", func(p v1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				if ended := c.State.Terminated; c.Name == "none" && (ended == nil || ended.ExitCode != 0) || c.Name != "none" &&
					c.State.Running == nil {
					return fmt.Errorf("%s is %+v", c.Name, c.State)
				}
			}
			if count := len(p.Status.ContainerStatuses); count != 5 {
				return fmt.Errorf("%d containers", count)
			}
			return nil
		})
		// Nothing was written to standard input, and it was not closed.
		for container, want := range map[string]string{"stdin": "pipe", "once": "pipe", "tty": "/dev/pts/0"} {
			i := n.AwaitContainer("p", container)
			got, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", i.Pid))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) < len(want) || got[:len(want)] != want {
				t.Errorf("standard input of %s is %q, want %s", container, got, want)
			}
		}
	})
}

// The termination message of a container, from terminationMessagePath or, if it failed without
// one, from the end of its log.
func TestTerminationMessageElsewhere(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  restartPolicy: Never
  containers:
    - {name: path, image: %[1]s, command: [sh, -c, "echo at another place > /var/words"], terminationMessagePath: /var/words}
    - {name: log, image: %[1]s, command: [sh, -c, "for i in $(seq 100); do echo line $i; done; exit 1"], terminationMessagePolicy: FallbackToLogsOnError}
    - {name: errors, image: %[1]s, command: [sh, -c, "echo bad >&2; exit 1"], terminationMessagePolicy: FallbackToLogsOnError}
    - {name: both, image: %[1]s, command: [sh, -c, "echo log; echo file > /dev/termination-log; exit 1"], terminationMessagePolicy: FallbackToLogsOnError}
    - {name: fine, image: %[1]s, command: [sh, -c, "echo log"], terminationMessagePolicy: FallbackToLogsOnError}
    - {name: file, image: %[1]s, command: [sh, -c, "echo log; exit 1"]}
`, testbed.BusyboxImage))
		n.MustStart()
		p := n.AwaitPhase("p", v1.PodFailed)
		got := map[string]string{}
		for _, c := range p.Status.ContainerStatuses {
			got[c.Name] = strings.TrimSpace(c.State.Terminated.Message)
		}
		for name, want := range map[string]string{"path": "at another place", "errors": "bad", "both": "file", "fine": "",
			"file": ""} {
			if got[name] != want {
				t.Errorf("%s: %q, want %q", name, got[name], want)
			}
		}
		if lines := strings.Split(got["log"], "\n"); len(lines) != 80 || lines[0] != "line 21" || lines[79] != "line 100" {
			t.Errorf("log: %q", got["log"])
		}
	})
}
