package objects

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/api/client"
)

// ListEvents returns the events of an object, ordered by when they last occurred.
func ListEvents(ctx context.Context, c *client.Client, kind, namespace, name string) ([]v1.Event, error) {
	l, err := Query{Kind: EventKind(), Namespace: namespace,
		Fields: "involvedObject.kind=" + kind + ",involvedObject.name=" + name}.List(ctx, c)
	if err != nil {
		return nil, err
	}
	events := make([]v1.Event, len(l.Objects))
	for i, o := range l.Objects {
		if err := o.Decode(&events[i]); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// EventAge returns how long ago an event occurred, and how often since when.
func EventAge(e *v1.Event, now time.Time) string {
	last := duration.HumanDuration(now.Sub(e.LastTimestamp.Time))
	if e.Count <= 1 {
		return last
	}
	return fmt.Sprintf("%s (x%d over %s)", last, e.Count, duration.HumanDuration(now.Sub(e.FirstTimestamp.Time)))
}

// involvedObject returns KIND/NAME of the object that an event is about.
func involvedObject(e *v1.Event) string {
	return strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name
}

// sortEvents orders events by when they last occurred.
func sortEvents(objects []*Object) error {
	decoded := map[*Object]v1.Event{}
	for _, o := range objects {
		var e v1.Event
		if err := o.Decode(&e); err != nil {
			return err
		}
		decoded[o] = e
	}
	slices.SortStableFunc(objects, func(a, b *Object) int {
		x, y := decoded[a], decoded[b]
		return cmp.Or(x.LastTimestamp.Compare(y.LastTimestamp.Time), x.FirstTimestamp.Compare(y.FirstTimestamp.Time))
	})
	return nil
}
