package supervisor

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/admit"
)

// adopt gives pods that run what they need, whether or not there is room. After
// a restart of the daemon none of them has said so yet, and there may be strays:
// their manifests went withStatusRefresh, or their source has not spoken. mu is held.
func (a *admissions) adopt() {
	for _, pod := range a.observed().Own {
		s := a.seats[pod.UID]
		switch {
		case s == nil && pod.Running():
			a.seats[pod.UID] = &seat{Stake: strayStake(pod), holds: true}
			a.strays[pod.UID] = true
			a.count(a.seats[pod.UID], 1)
		case s != nil && !s.holds && s.Unsettled && pod.Running():
			// What it asked for counts already.
			s.holds, s.asks = true, false
		}
	}
}

// look takes their seats from strays of which nothing runs any more. Those that
// a worker ends are no strays: it tells when all of them has ended.
func (a *admissions) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.strays) == 0 {
		return
	}
	runs := map[types.UID]bool{}
	for _, pod := range a.observed().Own {
		runs[pod.UID] = pod.Running()
	}
	for uid := range a.strays {
		if !runs[uid] {
			delete(a.strays, uid)
			a.count(a.seats[uid], -1)
			delete(a.seats, uid)
			a.wakeThose(uid)
		}
	}
}

// reveal makes of a stray a pod that is wanted. Who was refused because of it
// may preempt it now, and asks again when it has spoken. mu is held.
func (a *admissions) reveal(s *seat, pod *v1.Pod) {
	delete(a.strays, pod.UID)
	s.become(pod)
	s.Unsettled = true
	for _, other := range a.seats {
		other.unsure = other.unsure || other.refused || other.waits
	}
}

// strayStake is what can be told of a pod whose manifest is not there: the cpu
// and the memory that its running containers request.
func strayStake(found *cri.Pod) admit.Stake {
	pod := podFrom(found)
	// Nobody preempts what may be a critical pod.
	priority := int32(math.MaxInt32)
	pod.Spec.Priority = &priority
	stake := admit.NewStake(pod)
	for i := range found.Containers {
		if c := &found.Containers[i]; c.State != cri.StateExited && c.Resources != nil {
			stake.Needs.Add(c.Resources.Requests, 1)
		}
	}
	return stake
}
