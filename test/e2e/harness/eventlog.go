package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podstead/podstead/test/testbed"
)

// EventLog is a directory of the host, mounted at /v, in which containers append a line for
// each thing that they do.
type EventLog struct {
	n   *Node
	Dir string
}

// NewEventLog returns an empty log.
func NewEventLog(n *Node) EventLog { return EventLog{n, n.T.TempDir()} }

// Lines returns the lines written so far.
func (d EventLog) Lines() []string {
	text, err := os.ReadFile(filepath.Join(d.Dir, "events"))
	if err != nil && !os.IsNotExist(err) {
		d.n.T.Fatal(err)
	}
	return strings.Fields(string(text))
}

// Await waits until exactly these lines were written.
func (d EventLog) Await(want ...string) {
	d.n.T.Helper()
	d.n.Await("the event log is complete", func() error {
		if got := d.Lines(); !slices.Equal(got, want) {
			return fmt.Errorf("it has %q, want %q", got, want)
		}
		return nil
	})
}

// Touch creates a file that containers wait for.
func (d EventLog) Touch(name string) {
	d.n.T.Helper()
	if err := os.WriteFile(filepath.Join(d.Dir, name), nil, 0o600); err != nil {
		d.n.T.Fatal(err)
	}
}

// Pod returns a manifest. Each container is a name, a script and additional fields; init
// containers first.
func (d EventLog) Pod(name, policy string, init, regular [][3]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  restartPolicy: %s\n  "+
		"terminationGracePeriodSeconds: 300\n"+
		"  volumes: [{name: v, hostPath: {path: %q}}]\n", name, policy, d.Dir)
	for key, list := range map[string][][3]string{"initContainers": init, "containers": regular} {
		if len(list) > 0 {
			fmt.Fprintf(&b, "  %s:\n", key)
		}
		for _, c := range list {
			fmt.Fprintf(&b, "    - {name: %s, image: %s, command: [sh, -c, %q], volumeMounts: [{name: v, mountPath: /v}]%s}\n",
				c[0], testbed.BusyboxImage, c[1], c[2])
		}
	}
	return b.String()
}
