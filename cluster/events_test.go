package cluster

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUnsentEvents(t *testing.T) {
	event := func(name string, count int32, age time.Duration) v1.Event {
		return v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Count: count,
			LastTimestamp: metav1.NewTime(now.Add(-age))}
	}
	sent := sentEvents{}
	must := func(want []string, events ...v1.Event) {
		t.Helper()
		var got []string
		for _, e := range sent.unsent(events, now) {
			got = append(got, e.Name)
			sent[nameOf(&e)] = e.Count
		}
		if !slices.Equal(got, want) {
			t.Errorf("unsent %q, want %q", got, want)
		}
	}
	must([]string{"a", "b"}, event("old", 1, 2*time.Hour), event("a", 1, time.Minute), event("b", 2, 0))
	must(nil, event("a", 1, time.Minute), event("b", 2, 0))
	must([]string{"b"}, event("a", 1, time.Minute), event("b", 3, 0))
	must(nil, event("b", 3, 0))
	if len(sent) != 1 {
		t.Errorf("events that the recorder dropped are still tracked: %v", sent)
	}
	must([]string{"a"}, event("a", 1, 0), event("b", 3, 0))
}
