package event

import (
	"container/list"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/wallclock"
)

const (
	// writeSoon is how long the first event after a pause waits for those that
	// come with it. writeGap is the least time between two writes.
	writeSoon = 200 * time.Millisecond
	writeGap  = 3 * time.Second
	// writeRetry is the gap after a write that failed.
	writeRetry = 10 * time.Second
)

// Run writes the events to Config.File until ctx ends, and then writes what is
// left. Without a file it only waits. It does nothing while there are no new
// events, and always returns the error of ctx.
func (r *Recorder) Run(ctx context.Context) error {
	if r.journal == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	gap := writeSoon
	for {
		select {
		case <-ctx.Done():
			r.write()
			return ctx.Err()
		case <-r.unwritten.C():
		}
		retry.Sleep(ctx, gap)
		last := time.Now()
		wait := writeGap
		if !r.write() {
			wait = writeRetry
			r.notifyWriter()
		}
		// The time that the write took counts.
		if !retry.Sleep(ctx, wait-time.Since(last)) {
			r.write()
			return ctx.Err()
		}
		gap = writeSoon
	}
}

// notifyWriter notifies Run that there are unwritten events.
func (r *Recorder) notifyWriter() {
	r.unwritten.Notify()
}

// write brings the file up to date and reports whether that succeeded. A
// failure is logged once, and events stay in memory.
func (r *Recorder) write() bool {
	r.mu.Lock()
	changed := r.changed()
	r.mu.Unlock()
	if len(changed) == 0 && r.fault == "" {
		return true
	}
	data, err := encode(changed)
	if err == nil && r.journal.fits(data) {
		err = r.journal.add(data)
		if errors.Is(err, fs.ErrNotExist) {
			err = r.rewrite()
		}
	} else if err == nil {
		err = r.rewrite()
	}
	r.journal.disk.Unwritten.Report(r.journal.path, err)
	if err != nil {
		// The next write includes them again.
		r.journal.rewrite = true
		if r.fault != err.Error() {
			r.log.Warn("Failed to write events, keeping them in memory", "file", r.journal.path, "err", err)
		}
		r.fault = err.Error()
		return false
	}
	r.fault = ""
	return true
}

// rewrite replaces the file by one with the newest events that fit.
func (r *Recorder) rewrite() error {
	r.mu.Lock()
	r.changed()
	r.expire(time.Now())
	var lines [][]byte // newest first
	size := 0
	for el := r.order.Front(); el != nil; el = el.Next() {
		line, err := encode([]v1.Event{el.Value.(*entry).event})
		if err != nil {
			r.mu.Unlock()
			return err
		}
		if size += len(line); size > maxKept {
			break
		}
		lines = append(lines, line)
	}
	r.mu.Unlock()
	slices.Reverse(lines)
	return r.journal.replace(slices.Concat(lines...))
}

// changed returns the events that differ from those in the file, oldest
// occurrence first, and marks them as written. mu is held.
func (r *Recorder) changed() []v1.Event {
	var events []v1.Event
	for el := r.order.Front(); el != nil; el = el.Next() {
		e := el.Value.(*entry)
		if !e.dirty {
			break // changed events come first
		}
		e.dirty = false
		events = append(events, e.event)
	}
	slices.Reverse(events)
	return events
}

// expire drops events that are too old; mu is held. Between events of this run
// of the daemon the monotonic clock counts, so that a host whose clock is set late
// after the boot does not lose the events of its start.
func (r *Recorder) expire(now time.Time) {
	for el := r.order.Back(); el != nil; el = r.order.Back() {
		if now.Sub(el.Value.(*entry).last) <= r.maxAge {
			return
		}
		r.remove(el)
	}
}

// remove removes an event; mu is held.
func (r *Recorder) remove(el *list.Element) {
	e := r.order.Remove(el).(*entry)
	delete(r.entries, e.key)
	if r.perObject[e.key.uid]--; r.perObject[e.key.uid] <= 0 {
		delete(r.perObject, e.key.uid)
	}
}

// restore adds events that an earlier daemon recorded, oldest occurrence first.
func (r *Recorder) restore(events []v1.Event, now time.Time) {
	for i := range events {
		e := events[i]
		k := key{eventType: e.Type, reason: e.Reason, message: WithoutIDs(e.Message)}
		if e.InvolvedObject.Kind == "Pod" {
			k.uid = e.InvolvedObject.UID
		}
		if _, exists := r.entries[k]; exists {
			continue
		}
		last := e.LastTimestamp.Time
		if wallclock.Unset(last, now) {
			// The time is unknown: the event is kept for as long as a new one.
			last = now
		}
		r.insert(&entry{key: k, event: e, last: last})
		// New names continue from there, so that they stay unique even if the
		// clock was set back.
		if n, err := strconv.ParseInt(e.Name[strings.LastIndexByte(e.Name, '.')+1:], 16, 64); err == nil {
			r.stamp = max(r.stamp, n)
		}
	}
}
