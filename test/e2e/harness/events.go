package harness

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Events returns the daemon's events of a pod by reason, or all events if name is empty. Of
// several events with one reason it returns the newest.
func (n *Node) Events(name string) (map[string]v1.Event, error) {
	body, err := n.Get(n.T.Context(), "/podstead/v1/events?pod="+name)
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

// AwaitEvent waits for an event of a pod with a message that contains the words.
func (n *Node) AwaitEvent(pod, reason string, words ...string) {
	n.T.Helper()
	n.Await(fmt.Sprintf("event %s of %s contains %q", reason, pod, words), func() error {
		body, err := n.Get(n.T.Context(), "/podstead/v1/events?pod="+pod)
		if err != nil {
			return err
		}
		var list v1.EventList
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			seen = append(seen, e.Reason+": "+e.Message)
			if e.Reason == reason && !slices.ContainsFunc(words,
				func(w string) bool { return !strings.Contains(e.Message, w) }) {
				return nil
			}
		}
		return fmt.Errorf("events are %q", seen)
	})
}

// NodeEvents returns the events of the node with a reason.
func (n *Node) NodeEvents(reason string) (messages []string) {
	n.T.Helper()
	body, err := n.Get(n.T.Context(), "/podstead/v1/events")
	if err != nil {
		n.T.Fatal(err)
	}
	var list v1.EventList
	if err := json.Unmarshal(body, &list); err != nil {
		n.T.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason {
			messages = append(messages, e.Message)
		}
	}
	return messages
}
