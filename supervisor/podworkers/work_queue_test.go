package podworkers

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestWorkQueue(t *testing.T) {
	q := newWorkQueue()
	base := time.Now()
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	q.set("a", at(5))
	q.set("b", at(3))
	q.set("c", at(9))
	q.set("c", at(1)) // replaces
	q.set("a", at(7))
	q.remove("b")
	q.remove("b")
	q.remove("unknown")
	if first, ok := q.earliest(); !ok || !first.Equal(at(1)) {
		t.Fatalf("earliest is %v %v", first, ok)
	}
	var got []types.UID
	for {
		uid, ok := q.pop(at(6))
		if !ok {
			break
		}
		got = append(got, uid)
	}
	if len(got) != 1 || got[0] != "c" {
		t.Errorf("due at 6: %v", got)
	}
	if uid, ok := q.pop(at(7)); !ok || uid != "a" {
		t.Errorf("due at 7: %v", uid)
	}
	if _, ok := q.earliest(); ok {
		t.Error("queue is not empty")
	}
}

func TestWorkQueueNotifiesForAnEarlierEntryOnly(t *testing.T) {
	q := newWorkQueue()
	base := time.Now()
	notified := func() bool {
		select {
		case <-q.changed.C():
			return true
		default:
			return false
		}
	}
	q.set("a", base.Add(time.Minute))
	if !notified() {
		t.Error("not notified by the first entry")
	}
	q.set("b", base.Add(time.Hour))
	if notified() {
		t.Error("notified by a later entry")
	}
	q.set("b", base)
	if !notified() {
		t.Error("not notified by an earlier entry")
	}
}

func BenchmarkWorkQueueNothingDue(b *testing.B) {
	q := newWorkQueue()
	q.set("a", time.Now().Add(time.Hour))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := q.pop(time.Now()); ok {
			b.Fatal("due")
		}
	}
}
