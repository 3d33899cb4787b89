package nodestatus

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/unwritten"
)

type recordedEvents []string

func (r *recordedEvents) Event(_ *v1.Pod, _, reason, _ string) { *r = append(*r, reason) }

// The condition changes once per failure, and one event reports each change.
func TestStorage(t *testing.T) {
	failed := []unwritten.File{{Path: "/r/records", Err: errors.New("no space")},
		{Path: "/r/events", Err: errors.New("no space")}}
	since := time.Unix(100, 0)
	var c StorageCondition
	if got := c.Condition(nil, since); got.Status != v1.ConditionFalse || !got.LastTransitionTime.Time.Equal(since) {
		t.Errorf("at the start: %+v", got)
	}
	got := c.Condition(failed, since)
	if got.Status != v1.ConditionTrue || got.LastTransitionTime.Time.Equal(since) ||
		!strings.HasPrefix(got.Message, "cannot write /r/records and 1 more: no space; ") {
		t.Errorf("after a failure: %+v", got)
	}
	if again := c.Condition(failed[:1], since); !again.LastTransitionTime.Equal(&got.LastTransitionTime) {
		t.Errorf("the condition changes while the failure lasts: %+v", again)
	}
	var events recordedEvents
	changes := 0
	report := ReportStorage(&events, func() { changes++ })
	report(failed)
	report(failed[:1])
	report(nil)
	if !slices.Equal(events, []string{"RootDirNotWritable", "RootDirWritable"}) || changes != 3 {
		t.Errorf("events %q after %d changes", []string(events), changes)
	}
}
