package cli

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// askEvents asks for what happened to an object, in the order in which it happened last.
func askEvents(ctx context.Context, c *client, kind, namespace, name string) ([]v1.Event, error) {
	l, err := query{kind: eventKind(), namespace: namespace, fields: "involvedObject.kind=" + kind + ",involvedObject.name=" + name}.list(ctx, c)
	if err != nil {
		return nil, err
	}
	events := make([]v1.Event, len(l.objects))
	for i, o := range l.objects {
		if err := o.into(&events[i]); err != nil {
			return nil, fmt.Errorf("cannot read an event that podstead sent: %w", err)
		}
	}
	return events, nil
}

// eventTable is that of describe.
func eventTable(events []v1.Event, now time.Time) table {
	t := table{head: []string{"TYPE", "REASON", "AGE", "FROM", "MESSAGE"}}
	for i := range events {
		e := &events[i]
		t.rows = append(t.rows, []string{e.Type, e.Reason, eventAge(e, now), orNone(e.Source.Component), oneLine(e.Message)})
	}
	return t
}

func eventAge(e *v1.Event, now time.Time) string {
	last := duration.HumanDuration(now.Sub(e.LastTimestamp.Time))
	if e.Count <= 1 {
		return last
	}
	return fmt.Sprintf("%s (x%d over %s)", last, e.Count, duration.HumanDuration(now.Sub(e.FirstTimestamp.Time)))
}
