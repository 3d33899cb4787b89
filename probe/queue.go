package probe

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// queue has the probes that wait to become due, the earliest first.
type queue []*worker

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push and Pop implement container/heap.
func (q *queue) Push(w any) {
	w.(*worker).index = len(*q)
	*q = append(*q, w.(*worker))
}

// Pop removes the last element.
func (q *queue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	w.index = -1
	return w
}

func (q *queue) remove(w *worker) {
	if w.index >= 0 {
		heap.Remove(q, w.index)
	}
}

// schedule sets when a probe runs next. The lock is held.
func (p *Prober) schedule(w *worker, at time.Time) {
	w.due = at
	heap.Push(&p.queue, w)
	if w.index == 0 {
		p.wake.Notify()
	}
}

// Run runs probes until ctx ends, and returns when all of them have ended.
func (p *Prober) Run(ctx context.Context) error {
	var probes sync.WaitGroup
	defer probes.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if next, ok := p.startDue(ctx, &probes); ok {
			timer.Reset(max(0, time.Until(next)))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-p.wake.C():
		}
	}
	return ctx.Err()
}

// startDue starts the probes that are due, each in its own goroutine, and returns
// the time of the next. The number of parallel probes is not limited, since
// probes that hang would then delay others: each runs at most once at a time, and
// ends with its timeout.
func (p *Prober) startDue(ctx context.Context, probes *sync.WaitGroup) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.queue) > 0 {
		w := p.queue[0]
		if w.due.After(now) {
			return w.due, true
		}
		heap.Pop(&p.queue)
		one, cancel := context.WithCancel(ctx)
		w.cancel = cancel
		q := probeRequest{
			target: target{container: w.container.spec, id: w.container.id, ip: w.container.pod.ip},
			pod:    w.container.pod.pod, kind: w.kind, probe: w.spec, timeout: w.timeout(),
		}
		probes.Go(func() {
			start := time.Now()
			responded, ok := p.runProbe(one, q)
			p.finish(w, responded, ok, time.Since(start))
		})
	}
	return time.Time{}, false
}
