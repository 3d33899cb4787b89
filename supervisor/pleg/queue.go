package pleg

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// queue holds the looks to be taken. It is guarded by PLEG.mu.
type queue struct {
	pending map[types.UID]*look
	// failed counts the failures in a row of pods whose last look failed.
	failed map[types.UID]failure
	busy   map[types.UID]struct{} // looks under way
}

// look is one wanted look at one pod; all who want one share it.
type look struct {
	// due is when to look, at the earliest.
	due time.Time
	// after is what the look must be later than.
	after time.Time
	// hints are the stream's events that asked for it. A look that only hints
	// asked for is dropped if the cache tells of them already.
	hints     []cri.Event
	hintsOnly bool
}

type failure struct {
	times int
	text  string
}

func newQueue() queue {
	return queue{
		pending: map[types.UID]*look{},
		failed:  map[types.UID]failure{},
		busy:    map[types.UID]struct{}{},
	}
}

// ask wants a look at due that shows what was at after.
func (q *queue) ask(uid types.UID, due, after time.Time) {
	l := q.pending[uid]
	if l == nil {
		q.pending[uid] = &look{due: due, after: after}
		return
	}
	l.hintsOnly = false
	l.hints = nil
	l.merge(due, after)
}

// hint wants a look because the stream said something at now.
func (q *queue) hint(e cri.Event, now time.Time) {
	due := now.Add(endDelay)
	if e.Kind == cri.EventStarted {
		due = now.Add(startDelay)
	}
	l := q.pending[e.UID]
	if l == nil {
		l = &look{due: due, after: now, hintsOnly: true}
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

// served drops the wanted look at a pod if one at the given time will do.
func (q *queue) served(uid types.UID, at time.Time) {
	if l := q.pending[uid]; l != nil && at.After(l.after) {
		delete(q.pending, uid)
	}
}

func (l *look) merge(due, after time.Time) {
	if due.Before(l.due) {
		l.due = due
	}
	if after.After(l.after) {
		l.after = after
	}
}

// retry wants a look again after one failed, and reports whether the failure
// is a new one.
func (q *queue) retry(uid types.UID, l *look, now time.Time, text string) bool {
	f := q.failed[uid]
	fresh := f.text != text
	delay := min(retryMin<<min(f.times, 16), retryMax)
	q.failed[uid] = failure{times: f.times + 1, text: text}
	q.ask(uid, now.Add(delay), l.after)
	return fresh
}

// next takes a look that is due and can be taken. Without one it is nil and
// wait says how long to wait for the first, 0 if there is none to wait for.
func (q *queue) next(now time.Time) (uid types.UID, l *look, wait time.Duration) {
	if len(q.busy) >= parallelLooks {
		return "", nil, 0
	}
	for id, p := range q.pending {
		if _, busy := q.busy[id]; busy {
			continue
		}
		w := p.due.Sub(now)
		if w <= 0 && !now.After(p.after) {
			// The clock has not moved since: the look would not count.
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
