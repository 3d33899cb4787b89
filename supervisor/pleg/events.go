package pleg

import "github.com/podstead/podstead/cri"

// eventSet collects events until they are taken. It drops none, unlike the
// kubelet's channel, and holds equal events once, so that a slow reader makes it
// no larger than the number of containers.
type eventSet struct {
	list []Event
	seen map[Event]struct{}
	// notified is how many of the list were notified.
	notified int
}

func (s *eventSet) add(e Event) {
	if _, dup := s.seen[e]; dup {
		return
	}
	s.seen[e] = struct{}{}
	s.list = append(s.list, e)
}

func (s *eventSet) drain() []Event {
	list := s.list
	s.list, s.notified = nil, 0
	clear(s.seen)
	return list
}

// compare adds the events between two inspections of a pod. before is nil at the
// first inspection.
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
			// The reason of an exit may become known later than the exit.
			sync = sync || old.Reason != c.Reason
			continue
		}
		switch c.State {
		case cri.StateRunning:
			s.add(Event{UID: uid, Kind: ContainerStarted, ContainerID: c.ID})
		case cri.StateExited:
			// It ran between two inspections: the start is reported too.
			if (old == nil || old.State == cri.StateCreated) && !c.StartedAt.IsZero() {
				s.add(Event{UID: uid, Kind: ContainerStarted, ContainerID: c.ID})
			}
			s.add(Event{UID: uid, Kind: ContainerDied, ContainerID: c.ID})
		case cri.StateUnknown:
			sync = true
		}
		// A created container causes no event, as in the kubelet: the worker that
		// created it starts it next.
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
// that equal indices match in nearly every case.
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
