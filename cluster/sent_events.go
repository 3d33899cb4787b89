package cluster

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
)

// sentInterval is the shortest time between two writes of the file of sent events. A daemon that is killed sends the
// events of that time again, and the API server has them already.
const sentInterval = 10 * time.Second

// sentFormat is the file of the events that the API server has.
var sentFormat = statefile.Format[sentRecord]{
	Name: "cluster-events.json", Version: 1, Limit: 4 << 20, Damaged: statefile.MoveAside, Newer: statefile.MoveAside,
	DirMode: 0o700, Durability: statefile.Atomic, Repeat: true,
}

// sentRecord is the content of the file.
type sentRecord struct {
	Version int `json:"version"`
	// Node is the UID of the Node object, which another cluster does not have.
	Node types.UID `json:"node"`
	// Events are the counts of the events by NAMESPACE/NAME.
	Events map[string]int32 `json:"events"`
}

// sentEvents has the counts of the events that the API server has, by NAMESPACE/NAME. The
// recorder's list is the queue: nothing is queued here.
type sentEvents struct {
	counts map[string]int32
	// file keeps the counts over a restart of the daemon; nil does not. loaded reports that they were read.
	file   *statefile.File[sentRecord]
	loaded bool
	// changed reports that the file has other counts; saved is when it was written.
	changed bool
	saved   time.Time
	// newSince is when the daemon started, or could not send an event: events before it wait for those after it.
	newSince time.Time
}

// StateFile is a file and the disk that has it. Without a path nothing is kept.
type StateFile struct {
	Path string
	Disk statefile.Disk
}

func newSentEvents(file StateFile) sentEvents {
	s := sentEvents{counts: map[string]int32{}, newSince: time.Now()}
	if file.Path != "" {
		s.file = sentFormat.File(file.Path, file.Disk)
	}
	return s
}

// load reads the file once. Without one, or with that of another Node object, no event counts as sent.
func (s *sentEvents) load(node types.UID, log *slog.Logger) {
	if s.file == nil || s.loaded {
		return
	}
	s.loaded = true
	record, err := s.file.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		log.Warn("Could not load which events the API server has; those of the last hour are sent again", "err", err)
	case record.Node == node:
		for name, count := range record.Events {
			s.counts[name] = count
		}
	}
}

// save writes the file if its time has come, or at once if it is the last time. It returns when it has to be called
// again, 0 for not before the next event. The disk repeats a write that fails.
func (s *sentEvents) save(node types.UID, last bool) time.Duration {
	if s.file == nil || !s.loaded || !s.changed {
		return 0
	}
	if wait := sentInterval - time.Since(s.saved); wait > 0 && !last {
		return wait
	}
	s.changed, s.saved = false, time.Now()
	_ = s.file.Save(sentRecord{Version: sentFormat.Version, Node: node, Events: s.counts})
	return 0
}

// add notes that the API server has an event, or has refused it.
func (s *sentEvents) add(e *v1.Event) { s.counts[key(e)], s.changed = e.Count, true }

// unsent returns the events to send, of the last hour and in order, those since the daemon started or the API server
// was away first: a new pod's events do not wait for many of others. It drops events that the recorder has dropped.
func (s *sentEvents) unsent(events []v1.Event, now time.Time) (next []v1.Event) {
	kept := make(map[string]bool, len(events))
	var earlier []v1.Event
	since := s.newSince.Truncate(time.Second) // as the times of events are
	for i := range events {
		e := &events[i]
		kept[key(e)] = true
		switch {
		case s.counts[key(e)] == e.Count || now.Sub(e.LastTimestamp.Time) >= eventsKept:
		case e.LastTimestamp.Time.Before(since):
			earlier = append(earlier, *e)
		default:
			next = append(next, *e)
		}
	}
	for name := range s.counts {
		if !kept[name] {
			delete(s.counts, name)
			s.changed = true
		}
	}
	return append(next, earlier...)
}
