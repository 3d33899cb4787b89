package harness

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// PodWithSpec returns the manifest of a pod with additional fields in its spec.
func PodWithSpec(name, spec string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[2]s}
spec:
  terminationGracePeriodSeconds: 0
  %[3]s
  containers: [{name: main, image: %[1]s, command: [sleep, "100000"]}]
`, testbed.BusyboxImage, name, spec)
}

// AwaitHeld waits until a pod is Pending with a reason and a message that contains the words.
func (n *Node) AwaitHeld(name, reason string, words ...string) {
	n.T.Helper()
	n.AwaitStatus(name, "is held for "+reason, func(p v1.Pod) error {
		if p.Status.Phase != v1.PodPending || p.Status.Reason != reason {
			return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		for _, w := range words {
			if !strings.Contains(p.Status.Message, w) {
				return fmt.Errorf("%q is not in %q", w, p.Status.Message)
			}
		}
		return nil
	})
	if all, err := n.Sandboxes(name); err != nil || len(all) > 0 {
		n.T.Errorf("pod %q has sandboxes %v, %v", name, all, err)
	}
}

// IdlePod returns the manifest of a pod that only sleeps, with additional fields of its spec.
func IdlePod(name, spec string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  terminationGracePeriodSeconds: 1
%s
  containers:
    - name: main
      image: %s
      command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]
`, name, Indent(spec), testbed.BusyboxImage)
}

// Indent indents lines of YAML by one level.
func Indent(lines string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n  ")
}

// MustPrintIn fails the test unless a command in a container prints exactly this.
func (n *Node) MustPrintIn(i Instance, want string, command ...string) {
	n.T.Helper()
	if got := n.Exec(i, command...); got != want {
		n.T.Errorf("%s:\n%s\nwant\n%s", strings.Join(command, " "), got, want)
	}
}

// UntilTerm is a script that runs until SIGTERM.
const UntilTerm = "trap 'exit 0' TERM; sleep 100000 & wait"

// RunUntilTerm returns a script that runs until SIGTERM and records the signal.
func RunUntilTerm(line string) string {
	return "trap '" + AppendLine(line) + "exit 0' TERM; sleep 100000 & wait"
}

// Restarts returns the restart counts by container name.
func Restarts(p v1.Pod) map[string]int32 {
	counts := map[string]int32{}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		counts[c.Name] = c.RestartCount
	}
	return counts
}
