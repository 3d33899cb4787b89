package manifest

import (
	"context"
	"slices"
	"strings"
	"time"
)

// directoryTimeout is how long a scan may make no progress, for example because the
// directory is on a file system whose server is gone. One file blocks for less, and is
// loaded in less.
const directoryTimeout = 10 * time.Second

// scan reads what changed, and delivers the set if anything did. The reading is in a
// goroutine of its own, since any access to the directory can block forever; what was
// delivered last is delivered with a fault then. It returns false if it abandoned a scan
// that blocks, because ctx has ended: the goroutine owns the source from then on.
func (s *FileSource) scan(ctx context.Context) bool {
	began := time.Now()
	done := make(chan bool, 1)
	go func() { done <- s.read(began) }()
	stalled, ended := false, ctx.Done()
	timer := time.NewTimer(directoryTimeout)
	defer timer.Stop()
	for {
		select {
		case changed := <-done:
			if changed || stalled || !s.state.deliveredAny {
				s.deliver(began)
			}
			if s.opts.Scanned != nil {
				s.opts.Scanned(began)
			}
			return true
		case <-s.progress.C():
			timer.Reset(directoryTimeout)
		case <-timer.C:
			if !stalled {
				s.deliverStalled(began)
			}
			if stalled = true; ended == nil {
				return false
			}
		case <-ended:
			if stalled {
				return false
			}
			ended = nil // it is over soon
		}
	}
}

// read brings the units to the state on disk, and reports whether the set changed.
func (s *FileSource) read(now time.Time) (changed bool) {
	s.due = fileSchedule{rescan: now.Add(s.opts.Rescan)}
	// Watch first, then read, so that changes in between cause an event.
	// Reading can find more to watch, which is then read once more.
	for range 3 {
		s.watch.apply(s.plan())
		changed = s.update(now) || changed
		if s.watch.covers(s.plan()) {
			break
		}
	}
	return changed
}

// advance reports that a scan goes on.
func (s *FileSource) advance() { s.progress.Notify() }

// deliverStalled delivers the last set with the fault that the directory does not respond.
// The units belong to the scan.
func (s *FileSource) deliverStalled(since time.Time) {
	set := s.last
	set.Fault = &Fault{
		Unit: s.path, Problem: "has not answered since " + since.Format(time.RFC3339),
		Remedy: "check the file system, and its server if it is on the network; its pods keep running",
	}
	s.opts.Deliver.Deliver(set)
}

// deliver delivers the current set.
func (s *FileSource) deliver(now time.Time) {
	set, whole := s.set(now)
	// A unit that reappeared during the scan was not removed.
	set.Removed = slices.DeleteFunc(s.state.removed, func(name string) bool {
		return slices.ContainsFunc(set.Units, func(u Unit) bool { return u.Name == name })
	})
	s.state.removed = nil
	s.state.deliveredAny = true
	s.state.delivered = s.state.delivered || whole
	if s.state.delivered {
		set.Incomplete = nil
	}
	set.Restored = !s.state.delivered
	s.opts.Deliver.Deliver(set)
	s.last = set
	s.last.Removed = nil
}

// set returns the units in effect, and whether they are all there is to read.
func (s *FileSource) set(now time.Time) (set Set, whole bool) {
	set = Set{Source: SourceFile, Fault: s.state.fault, Ignored: s.state.ignored, Time: now, Restored: true}
	whole = s.state.fault == nil || s.state.fault.Warning
	for _, unit := range s.units {
		switch {
		case !unit.known, unit.offered.Missing && !s.state.delivered && !unit.seen:
			// The unit is not read yet; or it was removed while the daemon was
			// down, and a second scan must confirm that. Starting its pods
			// would be as wrong as stopping them, so that it is left out of a
			// set that does not count as delivered.
			whole = false
			continue
		case len(unit.offered.Documents) == 0 && unit.offered.Faults.Fatal() && s.opts.Checkpoint.wasLost(SourceFile):
			// Only the runtime knows what is running from this unit.
			whole = false
			set.Incomplete = append(set.Incomplete, unit.path)
		}
		set.Units = append(set.Units, unit.offered)
	}
	slices.SortFunc(set.Units, func(a, b Unit) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(set.Incomplete)
	return set, whole
}
