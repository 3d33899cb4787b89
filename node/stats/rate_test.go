package stats

import (
	"testing"
	"time"

	"github.com/podstead/podstead/internal/usage"
)

// After the clock was set, the second measurement has a rate again.
func TestRateWhenTheClockIsSet(t *testing.T) {
	year := 365 * 24 * time.Hour
	for name, jump := range map[string]time.Duration{"back": -50 * year, "forward": 50 * year} {
		var r rates
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		look := func(total time.Duration, born time.Time) *usage.CPU {
			cpu := &usage.CPU{}
			cpu.Total = total
			r.begin()
			r.add("x", cpu, at, born)
			r.end()
			at = at.Add(10 * time.Second)
			return cpu
		}
		born := at.Add(-time.Second)
		look(10*time.Second, born)
		at = at.Add(jump)
		if cpu := look(15*time.Second, born); cpu.Rate != nil {
			t.Errorf("%s: a rate of %v over a jump", name, *cpu.Rate)
		}
		if cpu := look(20*time.Second, born); cpu.Rate == nil || *cpu.Rate != 0.5 {
			t.Errorf("%s: no rate, or a wrong one, after it: %+v", name, cpu)
		}
	}
}
