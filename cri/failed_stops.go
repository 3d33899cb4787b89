package cri

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxFailedStops is how often the stop of a dead sandbox may fail before its pod goes
// on without.
const maxFailedStops = 3

// failedStops counts the failures to stop sandboxes of which no process is left. Such
// a stop only returns the network's address, and may fail forever: a power cut can
// leave an empty file of the CNI plugins, which the runtime then cannot read. The zero
// value is ready to use.
type failedStops struct {
	mu   sync.Mutex
	pods map[types.UID]map[string]int // by sandbox ID
}

// failed counts a failure and reports whether the pod goes on.
func (f *failedStops) failed(uid types.UID, sandbox string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods == nil {
		f.pods = map[types.UID]map[string]int{}
	}
	if f.pods[uid] == nil {
		f.pods[uid] = map[string]int{}
	}
	f.pods[uid][sandbox]++
	return f.pods[uid][sandbox] >= maxFailedStops
}

func (f *failedStops) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, uid)
}

// dead reports whether no process of a sandbox is left: neither the sandbox's own nor
// one of its containers.
func (p *Pod) dead(sandbox *Sandbox) bool {
	if sandbox.Ready {
		return false
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.SandboxID == sandbox.ID && (c.State == StateRunning || c.State == StateUnknown) {
			return false
		}
	}
	return true
}

// abandonStop reports whether a pod goes on without the stop of a sandbox, which has
// failed.
func (s *Syncer) abandonStop(pod *v1.Pod, observed *Pod, sandbox *Sandbox, err error) bool {
	if !observed.dead(sandbox) || !s.failedStops.failed(observed.UID, sandbox.ID) {
		return false
	}
	s.events.Event(pod, v1.EventTypeWarning, ReasonFailedKillPod, fmt.Sprintf(
		"error killing pod: %s; no process of the sandbox is left, the pod goes on without it; its network address may "+
			"stay reserved", withNames(err, observed)))
	return true
}
