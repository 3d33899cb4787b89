package pleg

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// inspectLoop runs the inspections that are due, several at once: a pod for which
// the runtime responds slowly must not delay the others.
func (p *PLEG) inspectLoop(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.inspectNotify.C():
		}
		wait := time.Duration(0)
		for ctx.Err() == nil {
			p.mu.Lock()
			uid, l, w := p.inspections.next(time.Now())
			if l != nil && l.hintsOnly && p.cache.shows(uid, l.hints) {
				delete(p.inspections.busy, uid)
				p.mu.Unlock()
				continue
			}
			p.mu.Unlock()
			if l == nil {
				wait = w
				break
			}
			wg.Go(func() {
				p.inspect(ctx, uid, l)
				p.inspectNotify.Notify()
			})
		}
		timer.Stop()
		if wait > 0 {
			timer.Reset(wait)
		}
	}
}

// inspect asks the runtime for one pod and puts the response into the cache.
func (p *PLEG) inspect(ctx context.Context, uid types.UID, l *inspection) {
	st, err := p.runtime.PodStatus(ctx, uid)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.inspections.busy, uid)
	p.stats.Inspections++
	if err != nil {
		p.stats.InspectionErrors++
		if ctx.Err() != nil {
			return
		}
		fresh := p.inspections.retry(uid, l, time.Now(), err.Error())
		// That the runtime is down is logged once, by the relist.
		if fresh && !errors.Is(err, cri.ErrUnavailable) {
			p.log.Warn("Failed to inspect pod, retrying", "uid", uid, "err", err)
		}
		return
	}
	delete(p.inspections.failed, uid)
	p.store(uid, st)
	p.inspections.served(uid, st.At)
}

// store makes an inspection the cache's entry and collects what changed; mu is
// held.
func (p *PLEG) store(uid types.UID, st *cri.PodStatus) {
	e := p.cache.pods[uid]
	if e == nil {
		e = &entry{}
		p.cache.pods[uid] = e
	} else if e.status == nil && gone(st) {
		// The relist showed the pod as existing.
		p.events.add(Event{UID: uid, Kind: PodSync})
	}
	st = keepIPs(e.status, p.withOOMKills(e.status, st))
	p.events.compare(e.status, st)
	e.status = st
	if st.At.After(e.seen) {
		e.seen = st.At
	}
	p.list.merged = nil
	p.cache.response(uid)
	p.notifyEvents()
}

// notifyEvents notifies the reader if there are new events; mu is held.
func (p *PLEG) notifyEvents() {
	if len(p.events.list) > p.events.notified {
		p.events.notified = len(p.events.list)
		p.changed.Notify()
	}
}

// keepIPs keeps the addresses of the last ready sandbox while none is ready, as
// the kubelet does: the status of a terminated pod still shows its address.
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

// shows reports whether the cache already shows the changes that the hints report.
// The states of a container and a sandbox only go forward: a later state implies
// an earlier one.
func (c *cache) shows(uid types.UID, hints []cri.Event) bool {
	e := c.pods[uid]
	if e == nil || e.status == nil {
		return false
	}
	for _, h := range hints {
		if !showsEvent(e.status, h) {
			return false
		}
	}
	return true
}

func showsEvent(st *cri.PodStatus, h cri.Event) bool {
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
