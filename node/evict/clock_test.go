package evict

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that was started before the clock was set back keeps its limits.
func TestDisksAreOfTheirPodWhenTheClockIsSet(t *testing.T) {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		started time.Time
		want    bool
	}{
		"started before it was measured": {at.Add(-time.Minute), true},
		"started afterwards":             {at.Add(time.Second), false},
		"started at the same time":       {at, false},
		"the clock was set back":         {at.AddDate(30, 0, 0), true},
		"the clock was set forward":      {at.AddDate(-56, 0, 0), true},
	} {
		p := pod("p", 0)
		p.Status.StartTime = &metav1.Time{Time: c.started}
		if got := (Disk{At: at}).isCurrent(p); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
