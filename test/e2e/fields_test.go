package e2e

import (
	"fmt"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/bed"
)

// Where a container starts, and what its standard input is.
func TestWorkingDirAndStandardInput(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		n.put("p.yaml", fmt.Sprintf(`apiVersion: v1
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
`, bed.BusyboxImage))
		n.start()
		if got := n.exec(n.awaitRunning("p"), "pwd"); got != "/var" {
			t.Errorf("the working directory is %q, want /var", got)
		}
		p := n.awaitStatus("p", "cat without input has ended", func(p v1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				if c.Name == "none" && c.State.Terminated != nil && c.State.Terminated.ExitCode == 0 {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		})
		for _, c := range p.Status.ContainerStatuses {
			if c.Name != "none" && c.State.Running == nil {
				t.Errorf("%s has ended: %+v", c.Name, c.State)
			}
		}
		// Nobody has written to it, and nobody has closed it.
		for container, want := range map[string]string{"stdin": "pipe", "once": "pipe", "tty": "/dev/pts/0"} {
			i := n.awaitContainer("p", container)
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
