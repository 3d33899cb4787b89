package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// queue holds the requested inspections. It is guarded by PLEG.mu.
type queue struct {
	pending map[types.UID]*inspection
	// failed counts consecutive failures, of pods whose last inspection failed.
	failed map[types.UID]failure
	busy   map[types.UID]struct{} // inspections in flight
}

// inspection is one requested inspection of a pod; all requests share it.
type inspection struct {
	// due is the earliest time for it.
	due time.Time
	// after: the inspection must be later than this.
	after time.Time
	// hints are the stream's events that requested it. An inspection that only
	// hints requested is dropped if the cache shows their changes already.
	hints     []cri.Event
	hintsOnly bool
}

type failure struct {
	times int
	text  string
}

func newQueue() queue {
	return queue{
		pending: map[types.UID]*inspection{},
		failed:  map[types.UID]failure{},
		busy:    map[types.UID]struct{}{},
	}
}

// request requests an inspection at due that shows the state at after.
func (q *queue) request(uid types.UID, due, after time.Time) {
	l := q.pending[uid]
	if l == nil {
		q.pending[uid] = &inspection{due: due, after: after}
		return
	}
	l.hintsOnly = false
	l.hints = nil
	l.merge(due, after)
}

// hint requests an inspection because of an event of the stream at now.
func (q *queue) hint(e cri.Event, now time.Time) {
	due := now.Add(endDelay)
	if e.Kind == cri.EventStarted {
		due = now.Add(startDelay)
	}
	l := q.pending[e.UID]
	if l == nil {
		l = &inspection{due: due, after: now, hintsOnly: true}
		q.pending[e.UID] = l
	} else {
		l.merge(due, now)
	}
	if !l.hintsOnly {
		return
	}
	if len(l.hints) == maxHints {
		l.hints, l.hintsOnly = nil, false
		return
	}
	l.hints = append(l.hints, e)
}

// served drops the requested inspection of a pod if one at the given time is enough.
func (q *queue) served(uid types.UID, at time.Time) {
	if l := q.pending[uid]; l != nil && at.After(l.after) {
		delete(q.pending, uid)
	}
}

func (l *inspection) merge(due, after time.Time) {
	if due.Before(l.due) {
		l.due = due
	}
	if after.After(l.after) {
		l.after = after
	}
}

// retry requests an inspection again after one failed, and reports whether the
// failure differs from the last.
func (q *queue) retry(uid types.UID, l *inspection, now time.Time, text string) bool {
	f := q.failed[uid]
	fresh := f.text != text
	delay := min(retryMin<<min(f.times, 16), retryMax)
	q.failed[uid] = failure{times: f.times + 1, text: text}
	q.request(uid, now.Add(delay), l.after)
	return fresh
}

// next takes an inspection that is due and can start. Without one it returns nil,
// and in wait the time until the first is due, 0 if there is none.
func (q *queue) next(now time.Time) (uid types.UID, l *inspection, wait time.Duration) {
	if len(q.busy) >= parallelInspections {
		return "", nil, 0
	}
	for id, p := range q.pending {
		if _, busy := q.busy[id]; busy {
			continue
		}
		w := p.due.Sub(now)
		if w <= 0 && !now.After(p.after) {
			// The clock has not advanced since: the inspection would not count.
			w = max(p.after.Sub(now)+1, time.Millisecond)
		}
		if w <= 0 {
			delete(q.pending, id)
			q.busy[id] = struct{}{}
			return id, p, 0
		}
		if wait == 0 || w < wait {
			wait = w
		}
	}
	return "", nil, wait
}
