package supervisor

import (
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/admit"
)

// admissions is who has what of the node, ports included, and who waits for it.
// A pod has its seat from when it may start until everything of it has ended.
// Whoever is refused is woken when it may have what it asked for, and not before.
type admissions struct {
	// has is nil for a node without bounds.
	has admit.Needs
	// observed is the last list of the runtime.
	observed func() *cri.Observed
	// wake makes a pod ask again.
	wake func(uid types.UID)

	mu    sync.Mutex
	seats map[types.UID]*seat
	// strays are the seats of pods that run and that nobody has told of.
	strays map[types.UID]bool
	// total is what all of them have or ask for.
	total admit.Needs
}

// seat is what one pod has or asks for.
type seat struct {
	admit.Stake
	// holds: it has what it needs. asks: it is going to ask, or has and was
	// refused. Neither: something else keeps it from starting.
	holds, asks bool
	// refused: it waits to be woken; unsure: because not all have spoken.
	refused, unsure bool
	// obstacle is what it was refused for.
	obstacle string
	// grows is what a pod that runs asks for beside, nil for nothing; granted
	// is the last that it was given, until its containers have it.
	grows   *admit.Stake
	granted admit.Needs
	// waits: grows was refused.
	waits bool
}

func newAdmissions(allocatable v1.ResourceList, observed func() *cri.Observed, wake func(types.UID)) *admissions {
	a := &admissions{observed: observed, wake: wake, seats: map[types.UID]*seat{}, strays: map[types.UID]bool{}, total: admit.Needs{}}
	if allocatable != nil {
		a.has = admit.Amounts(allocatable)
	}
	return a
}

// announce says that a pod is wanted and is going to speak. Until it has, nobody
// of no higher priority is refused for good: the pod may run already, or have
// waited for longer. It takes its time in the line from an earlier revision.
func (a *admissions) announce(pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.seats[pod.UID]
	if s == nil {
		s = &seat{Stake: admit.NewStake(pod)}
		for _, other := range a.seats {
			if other.Name == s.Name && (s.Since.IsZero() || other.Since.Before(s.Since)) {
				s.Since = other.Since
			}
		}
		a.seats[pod.UID] = s
	}
	a.count(s, -1)
	if a.strays[pod.UID] {
		a.reveal(s, pod)
	}
	if !s.holds {
		s.asks, s.Unsettled = true, true
	}
	a.count(s, 1)
}

// count adds what a seat stands for to the total, or takes it away.
func (a *admissions) count(s *seat, sign int64) {
	if s.holds || s.asks {
		a.total.Add(s.Needs, sign)
	}
	if s.grows != nil {
		a.total.Add(s.grows.Needs, sign)
	}
}

// queued says that a pod waits for its name.
func (a *admissions) queued(pod *v1.Pod) {
	a.change(pod.UID, func(s *seat) {
		if s.asks && s.Unsettled {
			s.settle(time.Time{})
		}
	})
}

// settle notes that a pod has spoken, which was first taken up at a time, in
// whole seconds; zero if it has not been.
func (s *seat) settle(since time.Time) {
	s.Unsettled = false
	if s.Since.IsZero() {
		s.Since = time.Now()
	}
	if !since.IsZero() && s.Since.Sub(since) > time.Second {
		s.Since = since
	}
}

// take gives a pod what it needs, or says why it cannot have it. since is when it
// was first taken up, zero if now.
func (a *admissions) take(pod *v1.Pod, since time.Time) admit.Verdict {
	return a.ask(pod, since, true)
}

// fits is take without taking: a pod that may have what it needs keeps its turn.
func (a *admissions) fits(pod *v1.Pod) bool {
	return a.ask(pod, time.Time{}, false).Refusal == nil
}

func (a *admissions) ask(pod *v1.Pod, since time.Time, take bool) admit.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.seat(pod)
	if s.holds {
		// It was admitted once, and its sandbox died.
		s.Unsettled = false
		return admit.Verdict{}
	}
	settles := s.Unsettled || !s.asks
	a.count(s, -1)
	s.become(pod)
	s.asks = true
	a.count(s, 1)
	s.settle(since)
	a.adopt()
	v := a.room().Decide(&s.Stake)
	s.refused, s.unsure, s.obstacle = v.Refusal != nil, v.Unsettled, v.Obstacle
	switch {
	case v.Refusal == nil && take:
		s.holds, s.asks = true, false
	case v.Refusal == nil:
		s.Unsettled = true
	}
	for _, victim := range v.Victims {
		a.seats[victim.Pod.UID].Ending = true
	}
	if settles {
		a.wakeThose(pod.UID)
	}
	return v
}

// become takes a pod's newest revision.
func (s *seat) become(pod *v1.Pod) {
	now := admit.NewStake(pod)
	s.Pod, s.Needs, s.Name, s.Ports = pod, now.Needs, now.Name, now.Ports
}

func (a *admissions) seat(pod *v1.Pod) *seat {
	s := a.seats[pod.UID]
	if s == nil {
		s = &seat{Stake: admit.NewStake(pod)}
		a.seats[pod.UID] = s
	}
	return s
}

// holds reports whether a pod has a seat that nobody else can take.
func (a *admissions) holds(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.seats[uid]
	return s != nil && s.holds
}

// hold says what a pod that runs has: it keeps that, whoever else was there
// first. wants is what it is to have, the same pod if it has that; needs is what
// it takes withStatusRefresh. A refusal is of what it wants.
func (a *admissions) hold(has, wants, needs *v1.Pod) admit.Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.seat(has)
	a.count(s, -1)
	settles := !s.holds || s.Unsettled
	s.holds, s.asks, s.refused = true, false, false
	s.settle(time.Time{})
	before := s.Needs
	s.grows, s.waits, s.unsure = nil, false, false
	s.become(wants)
	s.Needs = admit.NeedsOf(has)
	a.count(s, 1)
	verdict := a.grow(s, has, wants, needs)
	if settles || gives(before, s.Needs) {
		a.wakeThose(has.UID)
	}
	return verdict
}

// grow decides whether a pod that runs may have more.
func (a *admissions) grow(s *seat, has, wants, needs *v1.Pod) admit.Verdict {
	if has == wants {
		s.granted = nil
		return admit.Verdict{}
	}
	wanted, more := admit.NeedsOf(wants), admit.Needs{}
	for name, amount := range wanted {
		if amount > s.Needs[name] {
			more[name] = amount - s.Needs[name]
		}
	}
	if len(more) > 0 && !maps.Equal(s.granted, wanted) {
		s.grows = &admit.Stake{Pod: wants, Needs: more, Name: s.Name, Since: s.Since, Grows: true}
		a.total.Add(more, 1)
		if v := a.room().Decide(s.grows); v.Refusal != nil {
			s.waits, s.unsure, s.obstacle, s.granted = true, v.Unsettled, v.Obstacle, nil
			return v
		}
		a.total.Add(more, -1)
		s.grows = nil
	}
	s.granted = wanted
	a.count(s, -1)
	s.Needs = admit.NeedsOf(needs)
	a.count(s, 1)
	return admit.Verdict{}
}

// gives reports whether there is less now of anything.
func gives(before, now admit.Needs) bool {
	for name, amount := range before {
		if now[name] < amount {
			return true
		}
	}
	return false
}

// aside says that something else keeps a pod from starting.
func (a *admissions) aside(uid types.UID) {
	a.change(uid, func(s *seat) {
		if !s.holds {
			s.asks, s.refused, s.Unsettled = false, false, false
		}
	})
}

// ending says that a pod is being ended.
func (a *admissions) ending(uid types.UID) {
	a.change(uid, func(s *seat) {
		delete(a.strays, uid)
		s.Ending = s.holds
		s.asks, s.refused, s.Unsettled = false, false, false
		s.grows, s.waits, s.granted = nil, false, nil
	})
}

// release says that everything of a pod has ended. again: it is going to ask
// again, at once.
func (a *admissions) release(uid types.UID, again bool) {
	a.change(uid, func(s *seat) {
		s.holds, s.Ending = false, false
		s.asks, s.Unsettled = again, again
	})
}

// forget drops a pod that nobody wants any more.
func (a *admissions) forget(uid types.UID) {
	a.change(uid, func(*seat) {
		delete(a.strays, uid)
		delete(a.seats, uid)
	})
}

func (a *admissions) change(uid types.UID, f func(s *seat)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.seats[uid]
	if !ok {
		return
	}
	a.count(s, -1)
	f(s)
	if _, ok := a.seats[uid]; ok {
		a.count(s, 1)
	}
	a.wakeThose(uid)
}

// wakeThose wakes who waits and may have what it asked for, or is kept from it
// by something else now, but the pod that changed something; and who was refused
// while not all had spoken.
func (a *admissions) wakeThose(but types.UID) {
	anybody := false
	for _, s := range a.seats {
		anybody = anybody || s.refused || s.waits
	}
	if !anybody {
		return
	}
	woken := map[types.UID]bool{but: true}
	for _, o := range a.room().Outlooks() {
		uid := o.Pod.UID
		if s := a.seats[uid]; !woken[uid] && (o.Grows && s.waits || !o.Grows && s.refused) && o.Obstacle != s.obstacle {
			woken[uid] = true
			a.wake(uid)
		}
	}
	for uid, s := range a.seats {
		if s.unsure && (s.refused || s.waits) && !woken[uid] {
			a.wake(uid)
		}
	}
}

func (a *admissions) room() *admit.Room {
	r := &admit.Room{Has: a.has, Total: a.total}
	for _, s := range a.seats {
		switch {
		case s.holds:
			r.Holders = append(r.Holders, &s.Stake)
		case s.asks:
			r.Waiting = append(r.Waiting, &s.Stake)
		}
		if s.grows != nil {
			r.Waiting = append(r.Waiting, s.grows)
		}
	}
	return r
}
