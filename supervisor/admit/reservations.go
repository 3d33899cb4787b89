package admit

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// Reservations are the resources and host ports of the node that pods hold, and the
// pods that wait for them. A pod holds its reservation from when it may start until
// everything of it has ended. A pod that was denied is notified when it may have
// what it requested, and not before.
type Reservations struct {
	// capacity is nil for a node without limits. labels are those of the node.
	capacity Resources
	labels   map[string]string
	// observed returns the last list of the runtime.
	observed func() *cri.Observed
	// notify makes a pod request again.
	notify func(uid types.UID)
	// notifyPreviews is called when a preview may be served otherwise, if previewed: one was
	// denied since the last call.
	notifyPreviews func()
	previewed      bool

	mu    sync.Mutex
	byUID map[types.UID]*reservation
	// untracked are the pods that run and that no source has delivered.
	untracked map[types.UID]bool
	// total is what all reservations hold or request.
	total Resources
}

// reservation is what one pod holds or requests.
type reservation struct {
	Request
	// held: the pod has what it needs. requested: it is going to request it, or has
	// and was denied. Neither: something else keeps the pod from starting.
	held, requested bool
	// denied: the pod waits to be notified. provisional: because not all pods
	// have decided yet.
	denied, provisional bool
	// blockedBy is what the pod was denied for.
	blockedBy string
	// resized is what a running pod requests in addition, nil for nothing. granted
	// is the last resize that was admitted, until the containers have it.
	resized *Request
	granted Resources
	// resizeDenied: resized was denied.
	resizeDenied bool
}

// NewReservations returns the reservations of a node on which pods may use
// allocatable; nil is a node without limits. labels are the node's. notify is called with a lock held and
// must not call back.
func NewReservations(allocatable v1.ResourceList, labels map[string]string, observed func() *cri.Observed,
	notify func(types.UID)) *Reservations {
	a := &Reservations{labels: labels, observed: observed, notify: notify, byUID: map[types.UID]*reservation{},
		untracked: map[types.UID]bool{}, total: Resources{}}
	if allocatable != nil {
		a.capacity = ResourcesIn(allocatable)
	}
	return a
}

// Announce records that a pod is desired and is going to decide whether it requests
// anything. Until it has, no pod of the same or a lower priority is denied for good:
// the pod may run already, or may have waited for longer. It inherits its place in
// the queue from an earlier revision.
func (a *Reservations) Announce(pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.byUID[pod.UID]
	if s == nil {
		s = &reservation{Request: NewRequest(pod)}
		for _, other := range a.byUID {
			if other.Name == s.Name && (s.Since.IsZero() || other.Since.Before(s.Since)) {
				s.Since = other.Since
			}
		}
		a.byUID[pod.UID] = s
	}
	a.count(s, -1)
	if a.untracked[pod.UID] {
		a.adopt(s, pod)
	}
	if !s.held {
		s.requested, s.Undecided = true, true
	}
	a.count(s, 1)
}

// Queued records that a pod waits for its name.
func (a *Reservations) Queued(pod *v1.Pod) {
	a.change(pod.UID, func(s *reservation) {
		if s.requested && s.Undecided {
			s.decided(time.Time{})
		}
	})
}

// Reserve reserves what a pod needs, or reports why the pod cannot have it. since is
// when the pod was first accepted, zero if now.
func (a *Reservations) Reserve(pod *v1.Pod, since time.Time) Decision {
	return a.decide(pod, since, true)
}

// Fits reports whether Reserve would succeed, without reserving anything. A pod that
// may have what it needs keeps its turn.
func (a *Reservations) Fits(pod *v1.Pod) bool {
	return a.decide(pod, time.Time{}, false).Denied == nil
}

// Preview serves a request of a pod that is not desired yet as if the pod that it
// replaces, by its UID, had ended. It reserves nothing. A pod that could run by
// preempting others gets no denial. Other pods that are being replaced have what their new
// revisions request: they have ended for it, or are about to.
func (a *Reservations) Preview(pod *v1.Pod, replaced types.UID) Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	request := NewRequest(pod)
	request.Since = time.Now()
	a.reserveRunning()
	r := a.allocation()
	others := func(list []*Request) []*Request {
		return slices.DeleteFunc(list, func(other *Request) bool {
			if other.Pod.UID != replaced {
				return false
			}
			if !other.Since.IsZero() {
				request.Since = other.Since
			}
			return true
		})
	}
	r.Holders, r.Waiting, r.Total = others(r.Holders), others(r.Waiting), nil
	a.holdReplacements(r)
	d := r.Decide(&request)
	if len(d.Victims) > 0 {
		return Decision{}
	}
	a.previewed = a.previewed || d.Denied != nil
	return d
}

// holdReplacements makes the pods hold what they request that replace others and have not
// been denied, in place of those that they replace.
func (a *Reservations) holdReplacements(r *Allocation) {
	replacements, names := a.replacements()
	r.Holders = slices.DeleteFunc(r.Holders, func(h *Request) bool { return names[h.Name] })
	r.Waiting = slices.DeleteFunc(r.Waiting, func(w *Request) bool {
		if replacements[w] {
			r.Holders = append(r.Holders, w)
		}
		return replacements[w]
	})
}

// replacements returns the requests of the pods that replace others and have not been denied, and the
// names of these pods.
func (a *Reservations) replacements() (replacements map[*Request]bool, names map[string]bool) {
	replacements, names = map[*Request]bool{}, map[string]bool{}
	for _, s := range a.byUID {
		// Only one that replaces another has its place in the queue before it has decided.
		if s.requested && !s.held && !s.denied && (!s.Undecided || !s.Since.IsZero()) {
			replacements[&s.Request], names[s.Name] = true, true
		}
	}
	return replacements, names
}

// Replacements returns the pods that are about to start in place of others, in the order in which they
// came, and the pods that they replace.
func (a *Reservations) Replacements() (ended []types.UID, first []*v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	replacements, names := a.replacements()
	var requests []*Request
	for uid, s := range a.byUID {
		switch {
		case replacements[&s.Request]:
			requests = append(requests, &s.Request)
		case names[s.Name]:
			ended = append(ended, uid)
		}
	}
	slices.SortFunc(requests, func(x, y *Request) int {
		return cmp.Or(x.Since.Compare(y.Since), strings.Compare(x.Name, y.Name))
	})
	for _, r := range requests {
		first = append(first, r.Pod)
	}
	return ended, first
}

// OnPreview sets what is called, once for the previews that were denied until then, when
// a pod has decided or has released something; as for notify, with a lock held.
func (a *Reservations) OnPreview(notify func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notifyPreviews = notify
}

func (a *Reservations) decide(pod *v1.Pod, since time.Time, reserve bool) Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.reservation(pod)
	if s.held {
		// The pod was admitted before, and its sandbox died.
		s.Undecided = false
		return Decision{}
	}
	first := s.Undecided || !s.requested
	a.count(s, -1)
	s.setPod(pod)
	s.requested = true
	a.count(s, 1)
	s.decided(since)
	a.reserveRunning()
	d := a.allocation().Decide(&s.Request)
	s.denied, s.provisional, s.blockedBy = d.Denied != nil, d.Provisional, d.BlockedBy
	switch {
	case d.Denied == nil && reserve:
		s.held, s.requested = true, false
	case d.Denied == nil:
		s.Undecided = true
	}
	for _, victim := range d.Victims {
		a.byUID[victim.Pod.UID].Request.Terminating = true
	}
	if first {
		a.notifyUnblocked(pod.UID)
	}
	return d
}

// Holds reports whether a pod holds a reservation, which no other pod can take.
func (a *Reservations) Holds(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.byUID[uid]
	return s != nil && s.held
}

// UpdateRunning records what a running pod has: it keeps that, whichever pod came
// first. wants is what the pod is to have, the same pod if it has that already;
// during is what it uses while it is resized. A denial is about what the pod wants.
func (a *Reservations) UpdateRunning(has, wants, during *v1.Pod) Decision {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.reservation(has)
	a.count(s, -1)
	first := !s.held || s.Undecided
	s.held, s.requested, s.denied = true, false, false
	s.decided(time.Time{})
	before := s.Resources
	s.resized, s.resizeDenied, s.provisional = nil, false, false
	s.setPod(wants)
	s.Resources = ResourcesOf(has)
	a.count(s, 1)
	d := a.resize(s, has, wants, during)
	if first || released(before, s.Resources) {
		a.notifyUnblocked(has.UID)
	}
	return d
}

// resize decides whether a running pod may have more. mu is held, as by all
// unexported methods below.
func (a *Reservations) resize(s *reservation, has, wants, during *v1.Pod) Decision {
	if has == wants {
		s.granted = nil
		return Decision{}
	}
	desired, more := ResourcesOf(wants), Resources{}
	for name, amount := range desired {
		if amount > s.Resources[name] {
			more[name] = amount - s.Resources[name]
		}
	}
	if len(more) > 0 && !maps.Equal(s.granted, desired) {
		s.resized = &Request{Pod: wants, Resources: more, Name: s.Name, Since: s.Since, Resize: true}
		a.total.Add(more, 1)
		if d := a.allocation().Decide(s.resized); d.Denied != nil {
			s.resizeDenied, s.provisional, s.blockedBy, s.granted = true, d.Provisional, d.BlockedBy, nil
			return d
		}
		a.total.Add(more, -1)
		s.resized = nil
	}
	s.granted = desired
	a.count(s, -1)
	s.Resources = ResourcesOf(during)
	a.count(s, 1)
	return Decision{}
}

// released reports whether there is less now of any resource.
func released(before, now Resources) bool {
	for name, amount := range before {
		if now[name] < amount {
			return true
		}
	}
	return false
}

// Withdraw records that something other than resources keeps a pod from starting.
func (a *Reservations) Withdraw(uid types.UID) {
	a.change(uid, func(s *reservation) {
		if !s.held {
			s.requested, s.denied, s.Undecided = false, false, false
		}
	})
}

// Terminating records that a pod is being ended.
func (a *Reservations) Terminating(uid types.UID) {
	a.change(uid, func(s *reservation) {
		delete(a.untracked, uid)
		s.Request.Terminating = s.held
		s.requested, s.denied, s.Undecided = false, false, false
		s.resized, s.resizeDenied, s.granted = nil, false, nil
	})
}

// Release records that everything of a pod has ended. restarts: the pod is going to
// request again, at once.
func (a *Reservations) Release(uid types.UID, restarts bool) {
	a.change(uid, func(s *reservation) {
		s.held, s.Request.Terminating = false, false
		s.requested, s.Undecided = restarts, restarts
	})
}

// Forget drops a pod that no source wants any more.
func (a *Reservations) Forget(uid types.UID) {
	a.change(uid, func(*reservation) {
		delete(a.untracked, uid)
		delete(a.byUID, uid)
	})
}

// change changes the reservation of a pod, if it has one. It takes the lock.
func (a *Reservations) change(uid types.UID, f func(s *reservation)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.byUID[uid]
	if !ok {
		return
	}
	a.count(s, -1)
	f(s)
	if _, ok := a.byUID[uid]; ok {
		a.count(s, 1)
	}
	a.notifyUnblocked(uid)
}

func (a *Reservations) reservation(pod *v1.Pod) *reservation {
	s := a.byUID[pod.UID]
	if s == nil {
		s = &reservation{Request: NewRequest(pod)}
		a.byUID[pod.UID] = s
	}
	return s
}

// count adds what a reservation stands for to the total, or subtracts it.
func (a *Reservations) count(s *reservation, sign int64) {
	if s.held || s.requested {
		a.total.Add(s.Resources, sign)
	}
	if s.resized != nil {
		a.total.Add(s.resized.Resources, sign)
	}
}

// notifyUnblocked notifies the pods that wait and may have what they requested, or
// are blocked by something else now, except the pod that changed something; and
// those that were denied while not all pods had decided.
func (a *Reservations) notifyUnblocked(except types.UID) {
	if a.previewed && a.notifyPreviews != nil {
		a.previewed = false
		a.notifyPreviews()
	}
	waiting := false
	for _, s := range a.byUID {
		waiting = waiting || s.denied || s.resizeDenied
	}
	if !waiting {
		return
	}
	notified := map[types.UID]bool{except: true}
	for _, p := range a.allocation().Previews() {
		uid := p.Pod.UID
		if s := a.byUID[uid]; !notified[uid] && (p.Resize && s.resizeDenied || !p.Resize && s.denied) &&
			p.BlockedBy != s.blockedBy {
			notified[uid] = true
			a.notify(uid)
		}
	}
	for uid, s := range a.byUID {
		if s.provisional && (s.denied || s.resizeDenied) && !notified[uid] {
			a.notify(uid)
		}
	}
}

func (a *Reservations) allocation() *Allocation {
	r := &Allocation{Capacity: a.capacity, Labels: a.labels, Total: a.total}
	for _, s := range a.byUID {
		switch {
		case s.held:
			r.Holders = append(r.Holders, &s.Request)
		case s.requested:
			r.Waiting = append(r.Waiting, &s.Request)
		}
		if s.resized != nil {
			r.Waiting = append(r.Waiting, s.resized)
		}
	}
	return r
}

// decided records that a pod has decided what it requests. since is when it was
// first accepted, in whole seconds; zero if it has not been.
func (s *reservation) decided(since time.Time) {
	s.Undecided = false
	if s.Since.IsZero() {
		s.Since = time.Now()
	}
	if !since.IsZero() && s.Since.Sub(since) > time.Second {
		s.Since = since
	}
}

// setPod takes a pod's newest revision.
func (s *reservation) setPod(pod *v1.Pod) {
	now := NewRequest(pod)
	s.Pod, s.Resources, s.Name, s.Ports, s.placement = pod, now.Resources, now.Name, now.Ports, now.placement
}
