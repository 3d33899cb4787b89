package autoupdate

import (
	"fmt"
	"testing"
	"time"

	"github.com/podstead/podstead/internal/maintenance"
)

// The nodes of a fleet ask at different times, each at the same time after a restart.
func TestNextSpreadsAFleet(t *testing.T) {
	last := time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)
	byHour := [24]int{}
	for i := range 2400 {
		s := Schedule{Interval: 24 * time.Hour, Node: fmt.Sprintf("edge-%d", i)}
		due := s.Next("default/web", last, last)
		if !due.After(last) || due.After(last.Add(24*time.Hour)) {
			t.Fatalf("node %d is due at %s", i, due)
		}
		if again := s.Next("default/web", due.Add(-time.Second), last); !again.Equal(due) {
			t.Fatalf("node %d is due at %s, then at %s", i, due, again)
		}
		if following := s.Next("default/web", due.Add(time.Minute), last); !following.Equal(due.Add(24 * time.Hour)) {
			t.Fatalf("node %d is due at %s, then at %s", i, due, following)
		}
		byHour[due.Hour()]++
	}
	for hour, n := range byHour {
		if n < 50 || n > 150 {
			t.Errorf("%d of 2400 nodes ask in hour %d", n, hour)
		}
	}
}

// What became due while the machine was off is checked within a quarter of an hour, and not
// by all nodes at once.
func TestNextAfterTheMachineWasOff(t *testing.T) {
	last := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	started := last.AddDate(0, 0, 7)
	seen := map[time.Time]bool{}
	for i := range 100 {
		s := Schedule{Interval: 24 * time.Hour, Node: fmt.Sprintf("edge-%d", i)}
		due := s.Next("default/web", last, started)
		if due.Before(started) || due.After(started.Add(maxCatchUp)) {
			t.Fatalf("node %d is due at %s", i, due)
		}
		seen[due.Truncate(time.Minute)] = true
	}
	if len(seen) < 10 {
		t.Errorf("100 nodes ask in %d different minutes", len(seen))
	}
}

// Outside the windows a check is put off to the first half of the next one, spread over the
// fleet.
func TestNextInWindow(t *testing.T) {
	saturdays, err := maintenance.ParseWindow("Sat 02:00-06:00")
	if err != nil {
		t.Fatal(err)
	}
	loc := time.FixedZone("", 2*60*60)
	last := time.Date(2026, 6, 10, 12, 0, 0, 0, loc) // a Wednesday
	opens := time.Date(2026, 6, 13, 2, 0, 0, 0, loc)
	minutes := map[int]bool{}
	for i := range 300 {
		s := Schedule{Interval: 24 * time.Hour, Node: fmt.Sprintf("edge-%d", i), Windows: []maintenance.Window{saturdays},
			Location: loc}
		due := s.Next("default/web", last, last)
		if due.Before(opens) || !due.Before(opens.Add(2*time.Hour)) {
			t.Fatalf("node %d is due at %s", i, due)
		}
		if s.Open(opens.Add(-time.Second)) || !s.Open(due) {
			t.Fatalf("open at %s, or not at %s", opens.Add(-time.Second), due)
		}
		minutes[int(due.Sub(opens).Minutes())] = true
	}
	if len(minutes) < 60 {
		t.Errorf("300 nodes ask in %d different minutes", len(minutes))
	}
}

func TestRetryBacksOff(t *testing.T) {
	at := time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)
	s := Schedule{Interval: 24 * time.Hour, Node: "n"}
	for failures, want := range map[int]time.Duration{1: 5 * time.Minute, 2: 10 * time.Minute, 4: 40 * time.Minute,
		5: time.Hour, 1000: time.Hour} {
		if got := s.Retry("default/web", at, failures).Sub(at); got < want || got > want+want/5 {
			t.Errorf("after %d failures %s, want %s", failures, got, want)
		}
	}
	s.Interval = time.Minute
	if got := s.Retry("default/web", at, 1).Sub(at); got > 72*time.Second {
		t.Errorf("with a short interval %s", got)
	}
}
