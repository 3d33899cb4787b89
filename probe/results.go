package probe

import (
	"k8s.io/apimachinery/pkg/types"
)

// Kind is what a probe is for.
type Kind uint8

// The kinds of probes.
const (
	Startup Kind = iota
	Liveness
	Readiness
	kinds
)

// String is the kind's name in events.
func (k Kind) String() string {
	return [...]string{"Startup", "Liveness", "Readiness"}[k]
}

// state is what the results of a probe have come to.
type state uint8

const (
	unknown state = iota
	success
	failure
)

// Results are the results of a pod's probes, by container ID. A container without
// an entry has no such probe.
type Results struct {
	// Failed has the kind of the probe for which a container must be killed.
	Failed map[string]Kind
	// Ready is by readiness, Started by startup probes.
	Ready, Started map[string]bool
}

// Results returns those of a pod, immediately after UpdatePod too.
func (p *Prober) Results(uid types.UID) Results {
	p.mu.Lock()
	defer p.mu.Unlock()
	var r Results
	pod := p.pods[uid]
	if pod == nil {
		return r
	}
	for id, c := range pod.containers {
		if w := c.workers[Startup]; w != nil {
			setResult(&r.Started, id, w.state == success)
			if w.state == failure {
				setResult(&r.Failed, id, Startup)
			}
		}
		if w := c.workers[Liveness]; w != nil && w.state == failure {
			setResult(&r.Failed, id, Liveness)
		}
		if w := c.workers[Readiness]; w != nil {
			setResult(&r.Ready, id, w.state == success)
		}
	}
	return r
}

func setResult[V any](m *map[string]V, id string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[id] = v
}

// Changed receives a value after a result changed. Notifications coalesce;
// TakeChanged returns the pods.
func (p *Prober) Changed() <-chan struct{} { return p.changed.C() }

// TakeChanged returns the pods with a changed result and resets the list.
func (p *Prober) TakeChanged() []types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	uids := make([]types.UID, 0, len(p.dirty))
	for uid := range p.dirty {
		uids = append(uids, uid)
	}
	clear(p.dirty)
	return uids
}

// notifyChanged records that a result of a pod changed. The lock is held.
func (p *Prober) notifyChanged(uid types.UID) {
	p.dirty[uid] = struct{}{}
	p.changed.Notify()
}
