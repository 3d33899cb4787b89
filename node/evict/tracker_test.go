package evict

import (
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func parse(t *testing.T, s Settings) []Threshold {
	t.Helper()
	list, err := s.Parse(settingNames)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func memoryLeft(n int64) *Levels { return &Levels{MemoryAvailable: {Available: n, Capacity: 1000}} }

func TestTrackerOfAHardThreshold(t *testing.T) {
	tr := NewTracker(parse(t, Settings{Hard: map[string]string{"memory.available": "100"},
		MinReclaim: map[string]string{"memory.available": "50"}}), 5*time.Minute)
	for _, step := range []struct {
		at             float64
		left           int64
		active, under  bool
		changed        bool
		next           time.Duration
		margin         int64
		marginUnderway bool
	}{
		{at: 0, left: 100, margin: 0, marginUnderway: true},
		{at: 1, left: 99, active: true, under: true, changed: true},
		// Beyond the threshold is not enough once it was crossed.
		{at: 2, left: 149, active: true, under: true, margin: 49, marginUnderway: true},
		{at: 3, left: 150, under: true, next: 299 * time.Second, margin: 50, marginUnderway: true},
		// It has been relieved: the threshold applies again.
		{at: 4, left: 120, under: true, next: 298 * time.Second, margin: 20, marginUnderway: true},
		{at: 200, left: 99, active: true, under: true},
		{at: 201, left: 500, under: true, next: 299 * time.Second, margin: 400, marginUnderway: true},
		{at: 499.5, left: 500, under: true, next: 500 * time.Millisecond, margin: 400, marginUnderway: true},
		{at: 500, left: 500, changed: true, margin: 400, marginUnderway: true},
	} {
		changed := tr.Observe(memoryLeft(step.left), at(step.at))
		active := tr.Active()
		margin, ok := tr.Margin(memoryLeft(step.left), MemoryAvailable)
		if changed != step.changed || (active != nil) != step.active || tr.Under(v1.NodeMemoryPressure) != step.under ||
			tr.NextChange(at(step.at)) != step.next || margin != step.margin || ok != step.marginUnderway {
			t.Errorf("at %v: changed %v active %v under %v next %s margin %d %v, want %+v", step.at, changed, active,
				tr.Under(v1.NodeMemoryPressure), tr.NextChange(at(step.at)), margin, ok, step)
		}
	}
	if tr.Under(v1.NodeDiskPressure) || !tr.Changed(v1.NodeMemoryPressure).Equal(at(500)) ||
		!tr.Changed(v1.NodeDiskPressure).IsZero() {
		t.Error("conditions are confused")
	}
}

func TestTrackerOfASoftThreshold(t *testing.T) {
	tr := NewTracker(parse(t, Settings{
		Soft: map[string]string{"memory.available": "30%"}, SoftGrace: map[string]string{"memory.available": "90s"},
		Hard: map[string]string{"memory.available": "10%"},
	}), time.Minute)
	expect := func(seconds float64, left int64, want string, next time.Duration) {
		t.Helper()
		tr.Observe(memoryLeft(left), at(seconds))
		got := ""
		if active := tr.Active(); active != nil {
			got = map[bool]string{true: "soft", false: "hard"}[active.Soft]
		}
		if got != want || tr.NextChange(at(seconds)) != next || !tr.Under(v1.NodeMemoryPressure) {
			t.Errorf("at %v: active %q next %s, want %q %s", seconds, got, tr.NextChange(at(seconds)), want, next)
		}
	}
	expect(0, 299, "", 90*time.Second)
	expect(89, 200, "", time.Second)
	expect(90, 200, "soft", 0)
	expect(91, 99, "hard", 0)
	expect(92, 300, "", 59*time.Second)
	// The grace period starts again.
	expect(93, 299, "", 90*time.Second)
}

func TestTrackerOrders(t *testing.T) {
	tr := NewTracker(parse(t, Settings{Hard: DefaultHard}), time.Minute)
	all := Levels{}
	for s := range signalCount {
		all[s] = Level{Available: 1, Capacity: 1000}
	}
	tr.Observe(&all, at(0))
	if a := tr.Active(); a == nil || a.Signal != MemoryAvailable {
		t.Errorf("%v is relieved first", a)
	}
	all[MemoryAvailable].Available, all[AllocatableMemory] = 1<<40, Level{}
	tr.Observe(&all, at(1))
	// An unknown level leaves the state unchanged.
	if a := tr.Active(); a == nil || a.Signal != AllocatableMemory {
		t.Errorf("%v is relieved next", a)
	}
	if tr.HasThreshold(PIDAvailable) || !tr.HasThreshold(ImageFSInodes) {
		t.Error("the monitored signals are confused")
	}
}

func TestTrackerBegins(t *testing.T) {
	tr := NewTracker(nil, time.Minute)
	tr.Restore(v1.NodeDiskPressure, at(0))
	tr.Observe(&Levels{}, at(59))
	if !tr.Under(v1.NodeDiskPressure) || tr.NextChange(at(59)) != time.Second {
		t.Error("a restart has ended the pressure")
	}
	if !tr.Observe(&Levels{}, at(60)) || tr.Under(v1.NodeDiskPressure) || tr.NextChange(at(60)) != 0 {
		t.Error("the pressure does not end")
	}
}

// The tracker agrees with a plain model over the whole history: a condition is
// true if one of its thresholds was crossed within the transition time, and
// active holds the thresholds that were crossed without a break for their grace
// period.
func TestTrackerAgainstAModel(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		th := Threshold{Signal: NodeFSAvailable, Min: Amount{Number: 100},
			Grace: time.Duration(rnd.IntN(3)) * 10 * time.Second, Reclaim: Amount{Number: int64(rnd.IntN(2)) * 30}}
		th.Soft = th.Grace > 0
		transition := time.Duration(rnd.IntN(4)) * 15 * time.Second
		tr := NewTracker([]Threshold{th}, transition)
		var crossedSince, lastCrossed float64 = -1, -1e9
		wasActive := false
		now := 0.0
		for step := range 100 {
			now += float64(1 + rnd.IntN(20))
			left := int64(60 + rnd.IntN(100))
			least := int64(100)
			if wasActive {
				least += th.Reclaim.Number
			}
			active := false
			if left < least {
				if crossedSince < 0 {
					crossedSince = now
				}
				lastCrossed, active = now, now-crossedSince >= th.Grace.Seconds()
			} else {
				crossedSince = -1
			}
			wasActive = active
			under := lastCrossed == now || now-lastCrossed < transition.Seconds()
			tr.Observe(&Levels{NodeFSAvailable: {Available: left, Capacity: 1000}}, at(now))
			if (tr.Active() != nil) != active || tr.Under(v1.NodeDiskPressure) != under {
				t.Fatalf("seed %d step %d: active %v under %v, want %v %v", seed, step, tr.Active() != nil,
					tr.Under(v1.NodeDiskPressure), active, under)
			}
		}
	}
}
