package manifest

import (
	"testing"
	"time"
)

// TestLastGood checks how long a source has had faults.
func TestLastGood(t *testing.T) {
	b := newConfigHarness(t)
	now := time.Unix(1000, 0)
	b.config.now = func() time.Time { return now }
	good := func() time.Time {
		now = now.Add(time.Second) // each look is later
		return b.config.Snapshot()[0].LastGood
	}
	if at := good(); !at.IsZero() {
		t.Errorf("before it was read: %v", at)
	}
	b.deliver(SourceFile, "f1", "web 1")
	if at := good(); !at.Equal(now) {
		t.Errorf("without a fault: %v, now is %v", at, now)
	}
	fault := b.set(SourceFile, "f1", "web 1")
	fault.Fault = &Fault{Problem: "the directory is gone"}
	now = now.Add(time.Minute)
	until := now
	b.send(fault)
	now = now.Add(time.Hour)
	if at := good(); !at.Equal(until) {
		t.Errorf("it was good until %v, told is %v", until, at)
	}
	if other := b.config.Snapshot()[1].LastGood; !other.IsZero() {
		t.Errorf("another source: %v", other)
	}
	b.deliver(SourceFile, "f1", "web 1")
	if at := good(); !at.Equal(now) {
		t.Errorf("fixed: %v, now is %v", at, now)
	}
	// A source that was never good has no such time.
	b.restart()
	b.config.now = func() time.Time { return now }
	b.send(fault)
	if at := good(); !at.IsZero() {
		t.Errorf("never good: %v", at)
	}
}
