package wallclock

import (
	"testing"
	"time"
)

func TestUnset(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	early := time.Date(1970, 1, 1, 0, 10, 0, 0, time.UTC)
	for _, c := range []struct {
		t, now time.Time
		want   bool
	}{
		{early, now, true},
		{now.Add(-time.Hour), now, false},
		{now.AddDate(-5, 0, 0), now, false},
		{now.AddDate(1, 0, 0), now, true},
		{now.Add(time.Second), now, false},
		// The clock is not set yet, and was not set then.
		{early.Add(-time.Minute), early, false},
		// The clock was set then, and is not set now.
		{now, early, true},
	} {
		if got := Unset(c.t, c.now); got != c.want {
			t.Errorf("Unset(%s, %s) = %v", c.t, c.now, got)
		}
	}
}

func TestJump(t *testing.T) {
	start := time.Now()
	if j := Jump(start, start.Add(time.Hour)); j != 0 {
		t.Errorf("jump of %s after an hour without one", j)
	}
	// Times that were decoded have no monotonic reading.
	if j := Jump(start.Round(0), time.Now()); j != 0 {
		t.Errorf("without a monotonic reading: %s", j)
	}
}

func TestPassed(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	current := Mark{"this", 90 * time.Second}
	for name, c := range map[string]struct {
		at    time.Time
		mark  *Mark
		known bool
		want  time.Duration
	}{
		"no mark":        {now.Add(-time.Hour), nil, true, time.Hour},
		"no mark, ahead": {now.Add(time.Hour), nil, true, 0},
		"no uptime":      {now.Add(-time.Hour), &Mark{"this", time.Second}, false, time.Hour},
		"this boot": {now.Add(-10 * time.Second), &Mark{"this", 80 * time.Second}, true,
			10 * time.Second},
		"this boot, clock set forward":    {now.AddDate(-56, 0, 0), &Mark{"this", 80 * time.Second}, true, 10 * time.Second},
		"this boot, clock set back":       {now.AddDate(56, 0, 0), &Mark{"this", 80 * time.Second}, true, 10 * time.Second},
		"another boot":                    {now.Add(-time.Hour), &Mark{"other", time.Second}, true, time.Hour},
		"another boot, clock is not set":  {now.AddDate(1, 0, 0), &Mark{"other", time.Second}, true, 90 * time.Second},
		"another boot, clock was not set": {now.AddDate(-56, 0, 0), &Mark{"other", time.Second}, true, 90 * time.Second},
		"another boot, clock set back":    {now.Add(-time.Second), &Mark{"other", time.Second}, true, 90 * time.Second},
	} {
		if got := Passed(c.at, c.mark, now, current, c.known); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestNow(t *testing.T) {
	a, ok := Now()
	b, _ := Now()
	if !ok || a.Boot == "" || a.Boot != b.Boot || b.Up < a.Up || a.Up <= 0 {
		t.Errorf("%+v, %+v, %v", a, b, ok)
	}
}

func TestRecorded(t *testing.T) {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	unset, since := time.Date(1970, 1, 1, 0, 10, 0, 0, time.UTC), time.Date(1970, 1, 1, 0, 1, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		t, now, want time.Time
		fixed        bool
	}{
		"none":                     {time.Time{}, now, time.Time{}, false},
		"past":                     {now.Add(-time.Hour), now, now.Add(-time.Hour), false},
		"future":                   {now.AddDate(1, 0, 0), now, now, true},
		"before the clock was set": {unset, now, now, true},
		"the clock is not set":     {now, unset, since, false},
	} {
		if got, fixed := Recorded(c.t, c.now, since); !got.Equal(c.want) || fixed != c.fixed {
			t.Errorf("%s: %s, %v", name, got, fixed)
		}
	}
}
