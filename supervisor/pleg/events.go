package pleg

import "github.com/podstead/podstead/cri"

// eventSet gathers events until they are taken. It drops none, unlike the
// kubelet's channel, and holds equal ones once, so that a reader that lags
// makes it no larger than the number of containers.
type eventSet struct {
	list []Event
	seen map[Event]struct{}
	// told is how many of the list somebody was woken for.
	told int
}

func (s *eventSet) add(e Event) {
	if _, dup := s.seen[e]; dup {
		return
	}
	s.seen[e] = struct{}{}
	s.list = append(s.list, e)
}

func (s *eventSet) take() []Event {
	list := s.list
	s.list, s.told = nil, 0
	clear(s.seen)
	return list
}

// compare adds the events that lead from one look at a pod to the next. Before
// is nil at the first look.
func (s *eventSet) compare(before, after *cri.PodStatus) {
	if before == nil {
		before = &cri.PodStatus{}
	}
	uid := after.UID
	sync := sandboxesDiffer(before.Sandboxes, after.Sandboxes)
	for i := range after.Containers {
		c := &after.Containers[i]
		old := container(before.Containers, c.ID)
		if old != nil && old.State == c.State {
			continue
		}
		switch c.State {
		case cri.StateRunning:
			s.add(Event{UID: uid, Kind: ContainerStarted, ContainerID: c.ID})
		case cri.StateExited:
			// Not seen running, but it ran: nobody may miss the start.
			if (old == nil || old.State == cri.StateCreated) && !c.StartedAt.IsZero() {
				s.add(Event{UID: uid, Kind: ContainerStarted, ContainerID: c.ID})
			}
			s.add(Event{UID: uid, Kind: ContainerDied, ContainerID: c.ID})
		case cri.StateUnknown:
			sync = true
		}
		// One that was created is not told, as with the kubelet: whoever
		// created it goes on to start it.
	}
	for i := range before.Containers {
		c := &before.Containers[i]
		if container(after.Containers, c.ID) != nil {
			continue
		}
		if c.State != cri.StateExited {
			s.add(Event{UID: uid, Kind: ContainerDied, ContainerID: c.ID})
		}
		s.add(Event{UID: uid, Kind: ContainerRemoved, ContainerID: c.ID})
	}
	if sync {
		s.add(Event{UID: uid, Kind: PodSync})
	}
}

func container(list []cri.Container, id string) *cri.Container {
	for i := range list {
		if list[i].ID == id {
			return &list[i]
		}
	}
	return nil
}

func sandbox(list []cri.Sandbox, id string) *cri.Sandbox {
	for i := range list {
		if list[i].ID == id {
			return &list[i]
		}
	}
	return nil
}

// sandboxesDiffer compares by ID and state. The lists are newest first, so
// that the first loop settles nearly every case.
func sandboxesDiffer(a, b []cri.Sandbox) bool {
	if len(a) != len(b) {
		return true
	}
	for i := range a {
		if a[i].ID != b[i].ID {
			other := sandbox(b, a[i].ID)
			if other == nil || other.Ready != a[i].Ready {
				return true
			}
		} else if a[i].Ready != b[i].Ready {
			return true
		}
	}
	return false
}

func containersDiffer(a, b []cri.Container) bool {
	if len(a) != len(b) {
		return true
	}
	for i := range a {
		if a[i].ID != b[i].ID {
			other := container(b, a[i].ID)
			if other == nil || other.State != a[i].State {
				return true
			}
		} else if a[i].State != b[i].State {
			return true
		}
	}
	return false
}
