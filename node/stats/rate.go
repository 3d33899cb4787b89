package stats

import (
	"time"

	"github.com/podstead/podstead/internal/usage"
)

const (
	// rateWindow is the minimum time over which a rate is averaged, once two
	// measurements are that far apart.
	rateWindow = 5 * time.Second
	// maxSampleAge is the maximum age of a sample for a rate. The average since
	// yesterday is not the current usage.
	maxSampleAge = 2 * time.Minute
)

// sample is the total usage at a time.
type sample struct {
	at    time.Time
	total time.Duration
}

// history has earlier samples of one counter. Rates are computed from base;
// candidate replaces it once it is old enough.
type history struct {
	base, candidate, last sample
	round                 uint64
}

// rates computes rates of counters by name.
type rates struct {
	byName map[string]*history
	round  uint64
}

// begin begins a round. Counters that are not added in it are dropped at its end.
func (r *rates) begin() {
	if r.byName == nil {
		r.byName = map[string]*history{}
	}
	r.round++
}

func (r *rates) end() {
	for name, h := range r.byName {
		if h.round != r.round {
			delete(r.byName, name)
		}
	}
}

// add takes a sample and sets the rate of the CPU. A counter that started at born
// was 0 then; the zero time is unknown.
func (r *rates) add(name string, cpu *usage.CPU, at, born time.Time) {
	if cpu == nil {
		return
	}
	now := sample{at, cpu.Total}
	h := r.byName[name]
	// A clock that was set back, or far forward, restarts the history.
	if h == nil || now.total < h.last.total || at.Before(h.last.at) || at.Sub(h.last.at) > maxSampleAge {
		h = &history{base: now}
		if !born.IsZero() && !born.After(at) && at.Sub(born) < maxSampleAge {
			h.base = sample{at: born}
		}
		r.byName[name] = h
	}
	h.round, h.last = r.round, now
	if !h.candidate.at.IsZero() && at.Sub(h.candidate.at) >= rateWindow {
		h.base, h.candidate = h.candidate, sample{}
	}
	window := at.Sub(h.base.at)
	if window <= 0 {
		return
	}
	rate := float64(now.total-h.base.total) / float64(window)
	cpu.Rate, cpu.Window = &rate, window
	if h.candidate.at.IsZero() && window >= rateWindow {
		h.candidate = now
	}
}
