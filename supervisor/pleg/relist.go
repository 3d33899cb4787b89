package pleg

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// listState is the state of the relists. It is guarded by PLEG.mu.
type listState struct {
	// base is the last relist, nil before the first. merged is base with newer
	// inspections merged in, nil if it has to be made.
	base, merged *cri.Observed
	foreign      map[types.UID]*foreignPod
	round        uint64
	// tried is when the last attempt ended, ended when the last success did.
	tried, ended time.Time
	// desired requests a relist although the stream is trusted.
	desired bool
	// fault is the error of the last attempt, empty if it succeeded.
	fault string
}

type foreignPod struct {
	pod   *cri.Pod
	round uint64
}

// relistLoop runs the relists. Each is due a period after the last ended; a
// notification means that the period may have become shorter.
func (p *PLEG) relistLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.relistNotify.C():
		}
		wait := p.untilRelist()
		if wait <= 0 {
			p.relist(ctx)
			wait = p.untilRelist()
		}
		timer.Reset(wait)
	}
}

// untilRelist returns the time until the next relist is due.
func (p *PLEG) untilRelist() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list.tried.IsZero() {
		return 0
	}
	now := time.Now()
	period := RelistPeriod
	if !p.list.desired && p.list.fault == "" && p.stream.trusted(now) {
		period = EventedPeriod
	}
	return period - now.Sub(p.list.tried)
}

// relist lists all pods and requests an inspection of each pod that differs.
func (p *PLEG) relist(ctx context.Context) {
	p.mu.Lock()
	p.list.desired = false
	p.mu.Unlock()

	start := time.Now()
	observed, err := p.runtime.List(ctx)

	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.list.tried = now
	if err != nil {
		p.listFailed(ctx, err)
		return
	}
	if p.list.fault != "" {
		p.log.Info("Container runtime can be listed again")
		p.list.fault = ""
	}
	p.list.ended = now
	since := time.Duration(0)
	if !p.stats.LastRelist.IsZero() {
		since = start.Sub(p.stats.LastRelist)
	}
	p.relisted(now.Sub(start), since)
	p.stats.Relists++
	p.stats.LastRelist, p.stats.LastDuration = start, now.Sub(start)

	p.checkStream(now)
	p.compareOwn(observed)
	p.compareForeign(observed)
	p.list.base, p.list.merged = observed, nil
	p.stream.noteRelist(observed.At)
	p.logKind(now)
	p.notifyEvents()
	if len(p.inspections.pending) > 0 {
		p.inspectNotify.Notify()
	}
}

func (p *PLEG) listFailed(ctx context.Context, err error) {
	p.stats.RelistErrors++
	if ctx.Err() != nil {
		return
	}
	if text := err.Error(); text != p.list.fault {
		p.log.Warn("Failed to list pods, retrying every second", "err", err)
		p.list.fault = text
	}
}

// compareOwn compares the pods of a relist with the cache. If nothing changed it
// only compares. mu is held.
func (p *PLEG) compareOwn(o *cri.Observed) {
	p.list.round++
	p.cache.listed = o.At
	known := 0
	for _, pod := range o.Own {
		e := p.cache.pods[pod.UID]
		if e == nil {
			e = &entry{}
			p.cache.pods[pod.UID] = e
		}
		e.round = p.list.round
		known++
		p.comparePod(pod.UID, e, o.At, e.status != nil && !differs(e.status, pod))
	}
	if known != len(p.cache.pods) {
		for uid, e := range p.cache.pods {
			if e.round == p.list.round {
				continue
			}
			if e.status == nil {
				p.events.add(Event{UID: uid, Kind: PodSync})
			}
			if e.status == nil || gone(e.status) && !e.status.At.After(o.At) {
				delete(p.cache.pods, uid)
				continue
			}
			p.comparePod(uid, e, o.At, gone(e.status))
		}
	}
	p.cache.respondAll()
}

// comparePod applies the result of a relist that was requested at listed to a pod.
func (p *PLEG) comparePod(uid types.UID, e *entry, listed time.Time, same bool) {
	switch {
	case same:
		if listed.After(e.seen) {
			e.seen = listed
		}
		// Nothing changed since: a requested inspection is not needed any more.
		p.inspections.served(uid, listed)
	case e.status != nil && e.status.At.After(listed):
		// The cache is newer than the relist.
	default:
		p.stream.noteMissed(uid, e, listed)
		p.inspections.request(uid, time.Now(), listed)
	}
}

func differs(st *cri.PodStatus, pod *cri.Pod) bool {
	return sandboxesDiffer(st.Sandboxes, pod.Sandboxes) || containersDiffer(st.Containers, pod.Containers)
}

// compareForeign reports changes of the pods of other clients, so that a pod that
// waits for one of them is notified.
func (p *PLEG) compareForeign(o *cri.Observed) {
	if p.list.foreign == nil {
		p.list.foreign = map[types.UID]*foreignPod{}
	}
	known := 0
	for _, pod := range o.Foreign {
		f := p.list.foreign[pod.UID]
		if f == nil {
			f = &foreignPod{pod: &cri.Pod{}}
			p.list.foreign[pod.UID] = f
		}
		if f.round != p.list.round {
			known++
		}
		f.round = p.list.round
		if sandboxesDiffer(f.pod.Sandboxes, pod.Sandboxes) || containersDiffer(f.pod.Containers, pod.Containers) {
			p.events.add(Event{UID: pod.UID, Kind: ForeignChanged})
		}
		f.pod = pod
	}
	if known == len(p.list.foreign) {
		return
	}
	for uid, f := range p.list.foreign {
		if f.round != p.list.round {
			delete(p.list.foreign, uid)
			p.events.add(Event{UID: uid, Kind: ForeignChanged})
		}
	}
}
