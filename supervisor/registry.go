package supervisor

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/supervisor/status"
)

// Gate reports why a pod may not start now, nil if it may. A held pod is asked
// about again after RetryHeld, whenever a pod ends, and each minute. It is called
// by many workers at once and must not block.
type Gate func(pod *v1.Pod) *status.Cause

// RestartPolicy reports whether a pod that the node disrupted may run again now,
// and if not after how long to ask again; 0 leaves that to RetryDisrupted, which
// always asks. It is called by many workers at once and must not block.
type RestartPolicy func(pod *v1.Pod, d status.Disruption) (now bool, after time.Duration)

// registry holds what other packages add to a Supervisor between New and Run. They
// need the Supervisor for their own work, so that it has to exist first.
type registry struct {
	mu       sync.RWMutex
	running  bool
	gates    []Gate
	policies map[string]RestartPolicy
	observed []func()
	taints   func() []v1.Taint
}

// AddGate adds a gate. Gates are asked in the order in which they were added,
// before a sandbox is created for a pod. AddGate panics after Run was called.
func (s *Supervisor) AddGate(gate Gate) {
	s.registry.change(func(r *registry) { r.gates = append(r.gates, gate) })
}

// SetRestartPolicy decides when pods that were disrupted for a reason run again,
// in place of an earlier policy for the same reason. Pods that were disrupted for
// a reason without a policy run again at once. It panics after Run was called.
func (s *Supervisor) SetRestartPolicy(reason string, policy RestartPolicy) {
	s.registry.change(func(r *registry) { r.policies[reason] = policy })
}

// OnObserved adds a function that the sync loop calls after the observed state of
// the runtime changed. It must not block. OnObserved panics after Run was called.
func (s *Supervisor) OnObserved(notify func()) {
	s.registry.change(func(r *registry) { r.observed = append(r.observed, notify) })
}

// SetTaints makes admission judge pods of the cluster by the taints that the function
// returns; before it is called the node has none. SetTaints panics after Run was called.
func (s *Supervisor) SetTaints(taints func() []v1.Taint) {
	s.registry.change(func(r *registry) { r.taints = taints })
}

func (r *registry) change(f func(*registry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running {
		panic("supervisor: nothing can be registered after Run was called")
	}
	if r.policies == nil {
		r.policies = map[string]RestartPolicy{}
	}
	f(r)
}

// close ends the registration.
func (r *registry) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = true
}

// closedGate is the cause of the first gate that holds the pod, nil if none does.
func (r *registry) closedGate(pod *v1.Pod) *status.Cause {
	r.mu.RLock()
	gates := r.gates
	r.mu.RUnlock()
	for _, gate := range gates {
		if cause := gate(pod); cause != nil {
			return cause
		}
	}
	return nil
}

// mayRestart asks the policy for the reason of the disruption.
func (r *registry) mayRestart(pod *v1.Pod, d status.Disruption) (now bool, after time.Duration) {
	r.mu.RLock()
	policy := r.policies[d.Reason]
	r.mu.RUnlock()
	if policy == nil {
		return true, 0
	}
	return policy(pod, d)
}

// notifyObserved calls all functions that OnObserved added.
func (r *registry) notifyObserved() {
	r.mu.RLock()
	observed := r.observed
	r.mu.RUnlock()
	for _, notify := range observed {
		notify()
	}
}

// nodeTaints returns the taints of the node, nil if it has joined no cluster.
func (r *registry) nodeTaints() []v1.Taint {
	r.mu.RLock()
	taints := r.taints
	r.mu.RUnlock()
	if taints == nil {
		return nil
	}
	return taints()
}
