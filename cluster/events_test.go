package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestUnsentEvents(t *testing.T) {
	event := func(name string, count int32, age time.Duration) v1.Event {
		return v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Count: count,
			LastTimestamp: metav1.NewTime(now.Add(-age))}
	}
	sent := newSentEvents(StateFile{})
	must := func(want []string, events ...v1.Event) {
		t.Helper()
		var got []string
		for _, e := range sent.unsent(events, now) {
			got = append(got, e.Name)
			sent.add(&e)
		}
		if !slices.Equal(got, want) {
			t.Errorf("unsent %q, want %q", got, want)
		}
	}
	must([]string{"a", "b"}, event("old", 1, 2*time.Hour), event("a", 1, time.Minute), event("b", 2, 0))
	must(nil, event("a", 1, time.Minute), event("b", 2, 0))
	must([]string{"b"}, event("a", 1, time.Minute), event("b", 3, 0))
	must(nil, event("b", 3, 0))
	if len(sent.counts) != 1 {
		t.Errorf("events that the recorder dropped are still tracked: %v", sent.counts)
	}
	must([]string{"a"}, event("a", 1, 0), event("b", 3, 0))
}

// eventWrites returns the names of the events that were written to the API since the last call, in order.
func (r *clusterHarness) eventWrites() (names []string) {
	for _, request := range r.requests() {
		if request.resource != "events" {
			continue
		}
		var e v1.Event
		if err := json.Unmarshal(request.body, &e); err != nil {
			r.t.Error(err)
		}
		names = append(names, request.verb+" "+cmp.Or(request.name, e.Name))
	}
	return names
}

// restart ends the adapter and starts another one, as a restart of the daemon does.
func (r *clusterHarness) restart() {
	r.t.Helper()
	if r.end != nil {
		r.end()
	}
	cfg := r.a.cfg
	r.a = newAdapter(cfg)
	c, err := newClient(r.config(), r.a.connection, RateLimit{}, RateLimit{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.a.setClient(c)
	r.start()
}

// After a restart of the daemon, only what the API server lacks is sent, also if the daemon was killed; the first
// events are those that are new. In another cluster, and without the file, all are sent.
func TestSentEventsOutliveTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		path := filepath.Join(t.TempDir(), "cluster-events.json")
		r.a.cfg.SentEvents.Path = path
		events := harnessEvents{r}
		name := func() string { return r.events[len(r.events)-1].Name }
		for i := range 60 {
			events.Event(nil, v1.EventTypeNormal, "Old", fmt.Sprint(i))
		}
		r.restart()
		pass(time.Minute)
		if got := r.eventWrites(); len(got) != 60 {
			t.Fatalf("%d events were sent", len(got))
		}
		r.end()
		events.Event(nil, v1.EventTypeNormal, "Meanwhile", "while the daemon did not run")
		meanwhile := name()
		pass(time.Second)
		r.restart()
		pass(100 * time.Millisecond)
		events.Event(nil, v1.EventTypeNormal, "New", "after the start")
		pass(time.Minute)
		if got, want := r.eventWrites(), []string{"POST " + name(), "POST " + meanwhile}; !slices.Equal(got, want) {
			t.Errorf("sent after a restart: %q, want %q", got, want)
		}

		// Killed: the file is what it was ten seconds before, or newer.
		pass(time.Minute)
		saved, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		events.Event(nil, v1.EventTypeNormal, "Last", "before it is killed")
		pass(2 * time.Second)
		r.end()
		if err := os.WriteFile(path, saved, 0o600); err != nil {
			t.Fatal(err)
		}
		r.eventWrites()
		r.restart()
		pass(time.Minute)
		if got, want := r.eventWrites(), []string{"POST " + name(), "PATCH " + name()}; !slices.Equal(got, want) {
			t.Errorf("sent after a kill: %q, want %q", got, want)
		}

		r.end()
		r.wipe()
		r.version = 5000 // another UID of the Node object
		r.restart()
		pass(time.Minute)
		if got := len(r.eventWrites()); got != 63 {
			t.Errorf("%d events were sent to another cluster", got)
		}
		r.end()
	})
}

// While the API server gets many events that were recorded while it was away, new ones go first.
func TestNewEventsAreSentFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		events := harnessEvents{r}
		r.start()
		pass(time.Minute)
		r.setAway(true)
		for i := range eventsAtMost {
			events.Event(nil, v1.EventTypeNormal, "Away", fmt.Sprint(i))
		}
		pass(time.Minute)
		r.requests()
		// The responses are slow.
		sent, latest := 0, ""
		r.react = func(q fakeRequest) (runtime.Object, error) {
			if q.resource == "events" {
				time.Sleep(100 * time.Millisecond)
				if sent++; sent == 30 {
					events.Event(nil, v1.EventTypeNormal, "New", "a new pod")
					latest = r.events[len(r.events)-1].Name
				}
			}
			return nil, nil
		}
		r.setAway(false)
		pass(5 * time.Minute)
		r.react = nil
		got := r.eventWrites()
		if at := slices.Index(got, "POST "+latest); at < 30 || at > 30+eventsChunk {
			t.Errorf("the new event was sent as number %d of %d", at, len(got))
		}
		r.end()
	})
}
