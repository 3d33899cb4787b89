package observability

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
)

// Events survive a kill of the daemon, and the count of a repeated event continues.
func TestEventsAreKept(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.ScriptPod("p", "one", 2, "exit 3"))
		n.MustStart()
		var before v1.Event
		n.Await("the restarts are reported", func() error {
			found, err := n.Events("p")
			if before = found["Started"]; err != nil || before.Count < 2 || found["BackOff"].Count < 1 {
				return fmt.Errorf("%v %v", found, err)
			}
			return nil
		})
		n.Await("the events are in the journal", func() error {
			found, err := n.Events("p") // the count may have gone on before it was written
			if err != nil {
				return err
			}
			before = found["Started"]
			text, err := os.ReadFile(filepath.Join(n.Root, "events", "journal.jsonl"))
			if want := fmt.Sprintf(`"count":%d`, before.Count); err != nil || !strings.Contains(string(text), before.Name) ||
				!strings.Contains(string(text), want) {
				return fmt.Errorf("%s with %s is not in the journal: %v", before.Name, want, err)
			}
			return nil
		})
		n.Restart()
		n.Await("the events are reported after the kill", func() error {
			found, err := n.Events("p")
			after := found["Started"]
			if err != nil || after.Name != before.Name || after.Count < before.Count ||
				!after.FirstTimestamp.Equal(&before.FirstTimestamp) {
				return fmt.Errorf("Started was %+v and is %+v %v", before, after, err)
			}
			return nil
		})
		n.Await("the count continues", func() error {
			found, err := n.Events("p")
			if after := found["Started"]; err != nil || after.Count <= before.Count || after.Name != before.Name ||
				!after.LastTimestamp.After(before.LastTimestamp.Time) {
				return fmt.Errorf("Started was %+v and is %+v %v", before, after, err)
			}
			return nil
		})
		all, err := n.Events("")
		if start := all["Starting"]; err != nil || start.InvolvedObject.Kind != "Node" ||
			start.InvolvedObject.Name != n.Name || start.Count != 2 {
			t.Errorf("two starts of the daemon are reported as %+v %v", start, err)
		}
	})
}
