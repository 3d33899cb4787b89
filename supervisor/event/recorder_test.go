package event

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-node", Namespace: "default", UID: uid}}
}

func recorder(limit int) (*Recorder, *bytes.Buffer) {
	var log bytes.Buffer
	return New(Config{Node: "node", Limit: limit, Log: slog.New(slog.NewTextHandler(&log, nil))}), &log
}

func TestEventIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := recorder(0)
		r.Event(pod("u1"), v1.EventTypeWarning, "BackOff", "Back-off restarting")
		list := r.List()
		if len(list) != 1 {
			t.Fatalf("%d events", len(list))
		}
		e := list[0]
		o := e.InvolvedObject
		if o.Kind != "Pod" || o.Name != "web-node" || o.Namespace != "default" || o.UID != "u1" {
			t.Errorf("involved object %+v", o)
		}
		if e.Namespace != "default" || !strings.HasPrefix(e.Name, "web-node.") || e.Kind != "Event" {
			t.Errorf("metadata %+v", e.ObjectMeta)
		}
		if e.Type != "Warning" || e.Reason != "BackOff" || e.Message != "Back-off restarting" || e.Count != 1 ||
			e.Source.Component != "podstead" || e.Source.Host != "node" || !e.FirstTimestamp.Equal(&e.LastTimestamp) ||
			e.FirstTimestamp.IsZero() {
			t.Errorf("event %+v", e)
		}
		if line := log.String(); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "default/web-node") ||
			!strings.Contains(line, "reason=BackOff") {
			t.Errorf("log line %q", line)
		}
	})
}

func TestEqualEventsAreCountedAndLoggedOncePerBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := recorder(0)
		first := time.Now()
		for range 10 {
			r.Event(pod("u1"), "Normal", "BackOff", "m")
			time.Sleep(5 * time.Minute)
		}
		list := r.List()
		if len(list) != 1 || list[0].Count != 10 {
			t.Fatalf("events %+v, want one with count 10", list)
		}
		if e := list[0]; !e.FirstTimestamp.Time.Equal(first) || !e.LastTimestamp.Time.Equal(first.Add(45*time.Minute)) {
			t.Errorf("from %v to %v", e.FirstTimestamp, e.LastTimestamp)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d log lines for one burst", n)
		}
		time.Sleep(burstGap)
		r.Event(pod("u1"), "Normal", "BackOff", "m")
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d log lines after a new burst, want 2", n)
		}
	})
}

func TestDifferentEventsAreKeptSeparately(t *testing.T) {
	r, _ := recorder(0)
	r.Event(pod("u1"), "Normal", "Started", "m")
	r.Event(pod("u2"), "Normal", "Started", "m")
	r.Event(pod("u1"), "Normal", "Created", "m")
	r.Event(pod("u1"), "Normal", "Started", "other")
	r.Event(pod("u1"), "Warning", "Started", "m")
	r.Event(nil, "Normal", "Started", "m")
	list := r.List()
	names := map[string]bool{}
	for _, e := range list {
		names[e.Namespace+"/"+e.Name] = true
	}
	if len(list) != 6 || len(names) != 6 {
		t.Errorf("%d events with %d names, want 6", len(list), len(names))
	}
}

func TestNodeEvent(t *testing.T) {
	r, _ := recorder(0)
	r.Event(nil, "Warning", "ImageGCFailed", "m")
	if o := r.List()[0].InvolvedObject; o.Kind != "Node" || o.Name != "node" {
		t.Errorf("involved object %+v", o)
	}
}

func TestOldestOccurrenceIsDroppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := recorder(3)
		for _, reason := range []string{"a", "b", "c", "a", "d"} {
			r.Event(pod("u1"), "Normal", reason, "m")
			time.Sleep(time.Second)
		}
		var got []string
		for _, e := range r.List() {
			got = append(got, fmt.Sprint(e.Reason, e.Count))
		}
		if s := strings.Join(got, " "); s != "c1 a2 d1" {
			t.Errorf("kept %q, want %q: the bound is on the oldest last time", s, "c1 a2 d1")
		}
		if len(r.entries) != 3 {
			t.Errorf("%d entries behind 3 events", len(r.entries))
		}
	})
}

func TestLongMessageIsTruncated(t *testing.T) {
	r, _ := recorder(0)
	r.Event(pod("u1"), "Normal", "a", strings.Repeat("é", 1000))
	m := r.List()[0].Message
	if len(m) > maxMessage || !strings.HasSuffix(m, "é...") {
		t.Errorf("%d bytes ending in %q", len(m), m[len(m)-6:])
	}
}

func TestSubscribersAreNotified(t *testing.T) {
	r, _ := recorder(0)
	ch, cancel := r.Subscribe()
	r.Event(pod("u1"), "Normal", "a", "m")
	r.Event(pod("u1"), "Normal", "a", "m")
	if len(ch) != 1 {
		t.Errorf("%d notifications wait, want 1", len(ch))
	}
	<-ch
	r.Event(pod("u1"), "Normal", "a", "m")
	if len(ch) != 1 {
		t.Error("a repeated event does not notify")
	}
	<-ch
	cancel()
	r.Event(pod("u1"), "Normal", "a", "m")
	if len(ch) != 0 {
		t.Error("notified after the subscription ended")
	}
}

func TestListIsACopy(t *testing.T) {
	r, _ := recorder(0)
	r.Event(pod("u1"), "Normal", "a", "m")
	r.List()[0].Message = "changed"
	if m := r.List()[0].Message; m != "m" {
		t.Errorf("message is now %q", m)
	}
}

func TestConcurrentUse(t *testing.T) {
	r, _ := recorder(50)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, cancel := r.Subscribe()
			defer cancel()
			for j := range 200 {
				r.Event(pod(types.UID(fmt.Sprint(i))), "Normal", "a", fmt.Sprint(j%100))
				r.List()
			}
		})
	}
	wg.Wait()
	if n := len(r.List()); n != 50 {
		t.Errorf("%d events, want 50", n)
	}
}
