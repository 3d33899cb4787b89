package admit

import (
	"math"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// reserveRunning reserves for pods that run what they need, whether or not there is
// enough. After a restart of the daemon none of them has requested anything yet, and
// some may be untracked: their manifests were removed meanwhile, or their source has
// not delivered. mu is held.
func (a *Reservations) reserveRunning() {
	for _, pod := range a.observed().Own {
		s := a.byUID[pod.UID]
		switch {
		case s == nil && pod.Running():
			a.byUID[pod.UID] = &reservation{Request: untrackedRequest(pod), held: true}
			a.untracked[pod.UID] = true
			a.count(a.byUID[pod.UID], 1)
		case s != nil && !s.held && s.Undecided && pod.Running():
			// What it requested counts already.
			s.held, s.requested = true, false
		}
	}
}

// ReleaseUntracked releases the reservations of untracked pods of which nothing runs
// any more. A pod that a worker ends is not untracked: the worker reports when all
// of it has ended.
func (a *Reservations) ReleaseUntracked() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.untracked) == 0 {
		return
	}
	runs := map[types.UID]bool{}
	for _, pod := range a.observed().Own {
		runs[pod.UID] = pod.Running()
	}
	for uid := range a.untracked {
		if !runs[uid] {
			delete(a.untracked, uid)
			a.count(a.byUID[uid], -1)
			delete(a.byUID, uid)
			a.notifyUnblocked(uid)
		}
	}
}

// adopt makes an untracked pod a desired one. A pod that was denied because of it may
// preempt it now, and requests again when the adopted pod has decided. mu is held.
func (a *Reservations) adopt(s *reservation, pod *v1.Pod) {
	delete(a.untracked, pod.UID)
	s.setPod(pod)
	s.Undecided = true
	for _, other := range a.byUID {
		other.provisional = other.provisional || other.denied || other.resizeDenied
	}
}

// untrackedRequest returns the request of a pod without a manifest: the CPU and the
// memory that its running containers request.
func untrackedRequest(found *cri.Pod) Request {
	// The pod may be critical, so nothing preempts it.
	priority := int32(math.MaxInt32)
	var labels map[string]string
	if len(found.Sandboxes) > 0 {
		labels = found.Sandboxes[0].Labels
	}
	request := NewRequest(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: found.Name, Namespace: found.Namespace, UID: found.UID, Labels: labels},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, Priority: &priority},
	})
	for i := range found.Containers {
		if c := &found.Containers[i]; c.State != cri.StateExited && c.Resources != nil {
			request.Resources.Add(c.Resources.Requests, 1)
		}
	}
	return request
}
