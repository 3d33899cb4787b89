package admit

import (
	"maps"

	v1 "k8s.io/api/core/v1"
)

// forecast is an allocation as it will be when the pods that go first have had their
// turn.
type forecast struct {
	capacity Resources
	labels   map[string]string
	holders  []*Request
	// running are the holders without the pods that take a turn in the forecast.
	running []*Request
	// antiAffinity are those that require others not to run next to them.
	antiAffinity []*Request
	// byName has the indices of holders.
	byName map[string]int
	// byPort has the holders by the numbers of their ports.
	byPort map[int32][]*Request
	// used is what the holders have, longRunning the part of it that is not given
	// back by itself, reserved what is reserved for pods that wait.
	used, longRunning, reserved Resources
	// reservedFor is the pod for which a resource is reserved.
	reservedFor map[v1.ResourceName]*v1.Pod
}

func (r *Allocation) forecast() *forecast {
	f := &forecast{
		capacity: r.Capacity, labels: r.Labels, running: r.Holders, byName: map[string]int{}, byPort: map[int32][]*Request{},
		used: Resources{}, longRunning: Resources{}, reserved: Resources{}, reservedFor: map[v1.ResourceName]*v1.Pod{},
	}
	for _, h := range r.Holders {
		f.add(h)
	}
	return f
}

func (f *forecast) add(s *Request) {
	f.byName[s.Name] = len(f.holders)
	f.holders = append(f.holders, s)
	f.count(s)
}

func (f *forecast) count(s *Request) {
	for _, p := range s.Ports {
		f.byPort[p.Number] = append(f.byPort[p.Number], s)
	}
	if s.placement != nil && len(s.placement.antiAffinity) > 0 {
		f.antiAffinity = append(f.antiAffinity, s)
	}
	f.used.add(s.Resources)
	if longRunning(s) {
		f.longRunning.add(s.Resources)
	}
}

// longRunning reports whether a pod does not end by itself.
func longRunning(s *Request) bool {
	return !s.Terminating && s.Pod.Spec.RestartPolicy != v1.RestartPolicyNever &&
		s.Pod.Spec.RestartPolicy != v1.RestartPolicyOnFailure &&
		s.Pod.Spec.ActiveDeadlineSeconds == nil
}

// takeTurn gives a waiting pod what it can have, or reserves that for it.
func (f *forecast) takeTurn(w *Request) {
	if before := f.predecessor(w); before != nil {
		// It replaces the previous revision, which is still ending.
		f.used.subtract(before.Resources)
		if longRunning(before) {
			f.longRunning.subtract(before.Resources)
		}
		both := *w
		both.Resources = maps.Clone(w.Resources)
		both.Resources.raise(before.Resources)
		f.holders[f.byName[w.Name]] = &both
		f.count(&both)
		return
	}
	if f.blockedBy(w) == "" {
		f.add(w)
		return
	}
	if f.fitsEventually(w) {
		f.reserved.add(w.Resources)
		for name := range w.Resources {
			if f.reservedFor[name] == nil {
				f.reservedFor[name] = w.Pod
			}
		}
	}
}

// predecessor returns the holder whose name a pod waits for, nil if there is none.
func (f *forecast) predecessor(w *Request) *Request {
	if i, ok := f.byName[w.Name]; ok && !w.Resize && f.holders[i].Pod.UID != w.Pod.UID {
		return f.holders[i]
	}
	return nil
}

// anyHolder counts all holders.
func anyHolder(*Request) bool { return true }

// blockedBy returns the UID of a pod that has a port that a pod requests, the message about
// the pods that it may not run with, or the name of a resource that is short; empty if the pod
// can have what it requests.
func (f *forecast) blockedBy(w *Request) string {
	if h := f.portHolder(w, anyHolder); h != nil {
		return string(h.Pod.UID)
	}
	if cause := f.misplaced(w, anyHolder); cause != nil {
		return cause.Message
	}
	least := v1.ResourceName("")
	for name, amount := range w.Resources {
		if f.isShort(name, amount) && (least == "" || name < least) {
			least = name
		}
	}
	return string(least)
}

// portHolder returns one of the holders for which counts is true and that has a
// port that the pod requests, nil if there is none.
func (f *forecast) portHolder(w *Request, counts func(*Request) bool) *Request {
	if w.Resize {
		return nil
	}
	for _, p := range w.Ports {
		for _, h := range f.byPort[p.Number] {
			if h.Pod.UID != w.Pod.UID && counts(h) && w.conflicts(h) {
				return h
			}
		}
	}
	return nil
}

// isShort reports whether less than an amount of a resource is left, without what is
// reserved for other pods.
func (f *forecast) isShort(name v1.ResourceName, amount int64) bool {
	capacity, limited := capacityOf(f.capacity, name)
	if !limited || amount <= 0 {
		return false
	}
	return f.used[name]+amount > capacity || f.reserved[name] > 0 && f.longRunning[name]+f.reserved[name]+amount > capacity
}

// fitsEventually reports whether a waiting pod gets what it requests when all pods
// have ended that end by themselves.
func (f *forecast) fitsEventually(w *Request) bool {
	for name, amount := range w.Resources {
		if capacity, limited := capacityOf(f.capacity, name); limited && amount > 0 &&
			f.longRunning[name]+f.reserved[name]+amount > capacity {
			return false
		}
	}
	return f.portHolder(w, longRunning) == nil && f.misplaced(w, longRunning) == nil
}

// allocated returns what a pod that is resized has already.
func (f *forecast) allocated(s *Request) Resources {
	if s.Resize {
		for _, h := range f.holders {
			if h.Pod.UID == s.Pod.UID {
				return h.Resources
			}
		}
	}
	return nil
}
