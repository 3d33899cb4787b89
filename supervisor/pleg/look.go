package pleg

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// lookLoop takes the looks that are due, several at once: one pod that the
// runtime is slow about must not hold up the others.
func (p *PLEG) lookLoop(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.lookWake:
		}
		wait := time.Duration(0)
		for ctx.Err() == nil {
			p.mu.Lock()
			uid, l, w := p.looks.next(time.Now())
			if l != nil && l.hintsOnly && p.cache.tells(uid, l.hints) {
				delete(p.looks.busy, uid)
				p.mu.Unlock()
				continue
			}
			p.mu.Unlock()
			if l == nil {
				wait = w
				break
			}
			wg.Go(func() {
				p.look(ctx, uid, l)
				wake(p.lookWake)
			})
		}
		timer.Stop()
		if wait > 0 {
			timer.Reset(wait)
		}
	}
}

// look asks the runtime for one pod and puts the answer into the cache.
func (p *PLEG) look(ctx context.Context, uid types.UID, l *look) {
	st, err := p.runtime.PodStatus(ctx, uid)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.looks.busy, uid)
	p.stats.Looks++
	if err != nil {
		p.stats.LookErrors++
		if ctx.Err() != nil {
			return
		}
		fresh := p.looks.retry(uid, l, time.Now(), err.Error())
		// A runtime that is down is told once, by the relist.
		if fresh && !errors.Is(err, cri.ErrUnavailable) {
			p.log.Warn("cannot look at pod, will try again", "uid", uid, "error", err)
		}
		return
	}
	delete(p.looks.failed, uid)
	p.store(uid, st)
	p.looks.served(uid, st.At)
}

// store makes a look the cache's entry and gathers what changed; mu is held.
func (p *PLEG) store(uid types.UID, st *cri.PodStatus) {
	e := p.cache.pods[uid]
	if e == nil {
		e = &entry{}
		p.cache.pods[uid] = e
	} else if e.status == nil && gone(st) {
		// Whoever saw the list has taken it for one that is there.
		p.events.add(Event{UID: uid, Kind: PodSync})
	}
	st = keepIPs(e.status, st)
	p.events.compare(e.status, st)
	e.status = st
	if st.At.After(e.seen) {
		e.seen = st.At
	}
	p.list.merged = nil
	p.cache.answer(uid)
	p.tell()
}

// tell wakes whoever takes events if there are new ones; mu is held.
func (p *PLEG) tell() {
	if len(p.events.list) > p.events.told {
		p.events.told = len(p.events.list)
		wake(p.changed)
	}
}

// keepIPs keeps the addresses of the last ready sandbox while none is ready,
// as the kubelet does: a pod that ended has not lost its address for whoever
// reads its status.
func keepIPs(before, st *cri.PodStatus) *cri.PodStatus {
	if before == nil || len(before.IPs) == 0 || len(st.IPs) > 0 || gone(st) {
		return st
	}
	for i := range st.Sandboxes {
		if st.Sandboxes[i].Ready {
			return st
		}
	}
	kept := *st
	kept.IPs = before.IPs
	return &kept
}

// tells reports whether the cache already shows what the hints hint at. The
// states of a container and a sandbox only go forward, so one that is further
// on has passed the state hinted at.
func (c *cache) tells(uid types.UID, hints []cri.Event) bool {
	e := c.pods[uid]
	if e == nil || e.status == nil {
		return false
	}
	for _, h := range hints {
		if !shows(e.status, h) {
			return false
		}
	}
	return true
}

func shows(st *cri.PodStatus, h cri.Event) bool {
	if c := container(st.Containers, h.ContainerID); c != nil {
		switch h.Kind {
		case cri.EventCreated:
			return true
		case cri.EventStarted:
			return c.State == cri.StateRunning || c.State == cri.StateExited
		case cri.EventStopped:
			return c.State == cri.StateExited
		}
		return false
	}
	if s := sandbox(st.Sandboxes, h.ContainerID); s != nil {
		switch h.Kind {
		case cri.EventCreated, cri.EventStarted:
			return true
		case cri.EventStopped:
			return !s.Ready
		}
		return false
	}
	return h.Kind == cri.EventDeleted
}
