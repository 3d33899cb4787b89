package pleg

import "github.com/podstead/podstead/cri"

// Observed returns the last relist, with newer inspections of single pods merged
// in. Its time is that of the relist; before the first relist it is empty and its
// time zero. It is shared and must not be written to.
func (p *PLEG) Observed() *cri.Observed {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list.base == nil {
		return &cri.Observed{}
	}
	if p.list.merged == nil {
		p.list.merged = p.merge()
	}
	return p.list.merged
}

// merge returns the last relist with each newer inspection in place of the pod.
// mu is held.
func (p *PLEG) merge() *cri.Observed {
	base := p.list.base
	newer := 0
	for _, e := range p.cache.pods {
		if e.newerThanList(base) {
			newer++
		}
	}
	if newer == 0 {
		return base
	}
	merged := &cri.Observed{At: base.At, Foreign: base.Foreign, Own: make([]*cri.Pod, 0, len(base.Own)+newer)}
	for _, pod := range base.Own {
		if e := p.cache.pods[pod.UID]; e == nil || !e.newerThanList(base) {
			merged.Own = append(merged.Own, pod)
		}
	}
	for _, e := range p.cache.pods {
		if e.newerThanList(base) && !gone(e.status) {
			merged.Own = append(merged.Own, e.status.Pod())
		}
	}
	return merged
}

func (e *entry) newerThanList(base *cri.Observed) bool {
	return e.status != nil && !e.status.At.Before(base.At)
}
