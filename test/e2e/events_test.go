package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// events returns the daemon's events of a pod by reason, or all events if name is empty. Of
// several events with one reason it returns the newest.
func (n *node) events(name string) (map[string]v1.Event, error) {
	body, err := n.Get(n.t.Context(), "/podstead/v1/events?pod="+name)
	if err != nil {
		return nil, err
	}
	var list v1.EventList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	found := map[string]v1.Event{}
	for _, e := range list.Items {
		found[e.Reason] = e
	}
	return found, nil
}

// Events survive a kill of the daemon, and the count of a repeated event continues.
func TestEventsAreKept(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", scriptPod("p", "one", 2, "exit 3"))
		n.start()
		var before v1.Event
		n.await("the restarts are reported", func() error {
			found, err := n.events("p")
			if before = found["Started"]; err != nil || before.Count < 2 || found["BackOff"].Count < 1 {
				return fmt.Errorf("%v %v", found, err)
			}
			return nil
		})
		n.await("the events are in the journal", func() error {
			found, err := n.events("p") // the count may have gone on before it was written
			if err != nil {
				return err
			}
			before = found["Started"]
			text, err := os.ReadFile(filepath.Join(n.Root, "events", "journal.jsonl"))
			if want := fmt.Sprintf(`"count":%d`, before.Count); err != nil || !strings.Contains(string(text), before.Name) || !strings.Contains(string(text), want) {
				return fmt.Errorf("%s with %s is not in the journal: %v", before.Name, want, err)
			}
			return nil
		})
		n.restart()
		n.await("the events are reported after the kill", func() error {
			found, err := n.events("p")
			after := found["Started"]
			if err != nil || after.Name != before.Name || after.Count < before.Count || !after.FirstTimestamp.Equal(&before.FirstTimestamp) {
				return fmt.Errorf("Started was %+v and is %+v %v", before, after, err)
			}
			return nil
		})
		n.await("the count continues", func() error {
			found, err := n.events("p")
			if after := found["Started"]; err != nil || after.Count <= before.Count || after.Name != before.Name || !after.LastTimestamp.After(before.LastTimestamp.Time) {
				return fmt.Errorf("Started was %+v and is %+v %v", before, after, err)
			}
			return nil
		})
		all, err := n.events("")
		if start := all["Starting"]; err != nil || start.InvolvedObject.Kind != "Node" || start.InvolvedObject.Name != n.Name || start.Count != 2 {
			t.Errorf("two starts of the daemon are reported as %+v %v", start, err)
		}
	})
}
