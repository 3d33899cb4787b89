package status

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func typesUID(s string) types.UID { return types.UID(s) }

func phase(p v1.PodPhase) v1.PodStatus { return v1.PodStatus{Phase: p} }

func woken(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestStoreReturnsChanges(t *testing.T) {
	s := NewStore()
	ch, cancel := s.Subscribe()
	if woken(ch) {
		t.Error("notified by the subscription")
	}
	s.Set("a", phase("Pending"))
	s.Set("b", phase("Pending"))
	if !woken(ch) || woken(ch) {
		t.Error("want one notification for changes that were not read yet")
	}
	first := s.Since(0)
	if !first.Full || len(first.Changed) != 2 {
		t.Errorf("first snapshot %+v", first)
	}
	if s.Set("a", phase("Pending")) || woken(ch) {
		t.Error("an equal status is no change")
	}
	s.Set("a", phase("Running"))
	s.Delete("b")
	s.Delete("b")
	if !woken(ch) {
		t.Error("not notified")
	}
	snap := s.Since(first.Version)
	if snap.Full || len(snap.Changed) != 1 || snap.Changed["a"].Phase != "Running" || len(snap.Gone) != 1 ||
		snap.Gone[0] != "b" {
		t.Errorf("snapshot %+v", snap)
	}
	if st, ok := s.Get("a"); !ok || st.Phase != "Running" {
		t.Errorf("Get = %v, %v", st.Phase, ok)
	}
	if _, ok := s.Get("b"); ok || len(s.List()) != 1 {
		t.Error("deleted pod is still there")
	}
	s.Set("b", phase("Pending"))
	if snap = s.Since(first.Version); len(snap.Gone) != 0 || len(snap.Changed) != 2 {
		t.Errorf("a pod that was added again is gone too: %+v", snap)
	}
	if snap = s.Since(snap.Version); snap.Full || len(snap.Changed)+len(snap.Gone) != 0 {
		t.Errorf("nothing changed, but %+v", snap)
	}
	woken(ch)
	cancel()
	s.Set("c", phase("Pending"))
	if woken(ch) {
		t.Error("notified after the subscription ended")
	}
}

func TestSlowSubscriberGetsFullSnapshot(t *testing.T) {
	s := NewStore()
	s.Set("kept", phase("Running"))
	lagging := s.Since(0).Version
	for i := range tombstones + 1 {
		uid := types.UID(fmt.Sprint(i))
		s.Set(uid, phase("Running"))
		s.Delete(uid)
	}
	if snap := s.Since(lagging); !snap.Full || len(snap.Changed) != 1 {
		t.Errorf("full %v with %d statuses, want all of 1", snap.Full, len(snap.Changed))
	}
	recent := s.Since(0).Version
	s.Delete("kept")
	if snap := s.Since(recent); snap.Full || len(snap.Gone) != 1 {
		t.Errorf("snapshot %+v, want one that is gone", snap)
	}
}

// A change of the set of pods notifies like a change of a status.
func TestTouchNotifies(t *testing.T) {
	s := NewStore()
	changed, end := s.Subscribe()
	defer end()
	s.Touch()
	select {
	case <-changed:
	default:
		t.Error("no subscriber was notified")
	}
	if got := s.Since(0); len(got.Changed) != 0 || got.Version != 0 {
		t.Errorf("something changed: %+v", got)
	}
}
