package pleg

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// listState is what is known of full lists. It is guarded by PLEG.mu.
type listState struct {
	// base is the last full list, nil before the first; merged is base with
	// the newer looks in it, nil if it has to be made.
	base, merged *cri.Observed
	foreign      map[types.UID]*foreignPod
	round        uint64
	// tried is when the last attempt ended, ended when the last success did.
	tried, ended time.Time
	// wanted asks for a full list although the stream is trusted.
	wanted bool
	// fault is the error of the last attempt, empty if it succeeded.
	fault string
}

type foreignPod struct {
	pod   *cri.Pod
	round uint64
}

// relistLoop takes the full lists. Each is due a period after the last ended;
// a wake-up means that the period may have become shorter.
func (p *PLEG) relistLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.relistWake:
		}
		wait := p.untilRelist()
		if wait <= 0 {
			p.relist(ctx)
			wait = p.untilRelist()
		}
		timer.Reset(wait)
	}
}

// untilRelist is the time until the next full list is due.
func (p *PLEG) untilRelist() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list.tried.IsZero() {
		return 0
	}
	now := time.Now()
	period := RelistPeriod
	if !p.list.wanted && p.list.fault == "" && p.stream.trusted(now) {
		period = EventedPeriod
	}
	return period - now.Sub(p.list.tried)
}

// relist takes a full list and asks for a look at each pod that differs.
func (p *PLEG) relist(ctx context.Context) {
	p.mu.Lock()
	p.list.wanted = false
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
		p.log.Info("the container runtime can be listed again")
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

	p.mistrust(now)
	p.absorb(observed)
	p.compareForeign(observed)
	p.list.base, p.list.merged = observed, nil
	p.stream.listed(observed.At)
	p.tellKind(now)
	p.tell()
	if len(p.looks.pending) > 0 {
		wake(p.lookWake)
	}
}

func (p *PLEG) listFailed(ctx context.Context, err error) {
	p.stats.RelistErrors++
	if ctx.Err() != nil {
		return
	}
	if text := err.Error(); text != p.list.fault {
		p.log.Warn("cannot list pods, will try again every second", "error", err)
		p.list.fault = text
	}
}

// absorb compares a full list with the cache. An idle one comes to nothing but
// comparisons. mu is held.
func (p *PLEG) absorb(o *cri.Observed) {
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
		p.compare(pod.UID, e, o.At, e.status != nil && !differs(e.status, pod))
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
			p.compare(uid, e, o.At, gone(e.status))
		}
	}
	p.cache.answerAll()
}

// compare takes what a list asked for at listed says of one pod.
func (p *PLEG) compare(uid types.UID, e *entry, listed time.Time, same bool) {
	switch {
	case same:
		if listed.After(e.seen) {
			e.seen = listed
		}
		// Nothing changed since: whoever wanted a look has been served.
		p.looks.served(uid, listed)
	case e.status != nil && e.status.At.After(listed):
		// The list is the older one of the two.
	default:
		p.stream.found(uid, e, listed)
		p.looks.ask(uid, time.Now(), listed)
	}
}

func differs(st *cri.PodStatus, pod *cri.Pod) bool {
	return sandboxesDiffer(st.Sandboxes, pod.Sandboxes) || containersDiffer(st.Containers, pod.Containers)
}

// compareForeign tells of changes to pods that are not ours, so that a pod
// that waits for one of them is woken.
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
