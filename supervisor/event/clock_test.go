package event

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Events from before the clock was set are not lost when the daemon restarts
// with the correct time, and events of a clock that was ahead are not kept
// forever.
func TestRestoredEventsWhenTheClockWasSet(t *testing.T) {
	now := time.Now()
	event := func(reason string, at time.Time) v1.Event {
		return v1.Event{Type: "Normal", Reason: reason, Count: 1, LastTimestamp: metav1.NewTime(at)}
	}
	r := New(Config{})
	r.restore([]v1.Event{event("Old", now.AddDate(0, -1, 0)), event("Unset", time.Unix(600, 0)),
		event("Ahead", now.AddDate(1, 0, 0)), event("Recent", now.Add(-time.Hour))}, now)
	if got, want := reasons(r), "Unset Ahead Recent"; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
	r.mu.Lock()
	r.expire(now.Add(DefaultMaxAge + time.Minute))
	r.mu.Unlock()
	if got := reasons(r); got != "" {
		t.Errorf("a week later %q is kept", got)
	}
}

func reasons(r *Recorder) (names string) {
	for _, e := range r.List() {
		if names != "" {
			names += " "
		}
		names += e.Reason
	}
	return names
}
