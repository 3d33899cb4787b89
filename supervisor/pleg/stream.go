package pleg

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// Delays before the stream is tried again. A runtime without event stream may be
// replaced by one with it while the daemon runs.
const (
	streamRetryMin  = time.Second
	streamRetryMax  = 30 * time.Second
	streamRetryNone = 10 * time.Minute
)

// stream is the state of the runtime's event stream. It is guarded by PLEG.mu.
type stream struct {
	// open: a stream was requested and has not ended.
	open bool
	// first and last are the times of the first and the last relist since.
	first, last time.Time
	// mistrustedUntil is the time until which the stream is not trusted.
	mistrustedUntil time.Time
	// reported is when the stream last reported a pod, since the last relist.
	reported map[types.UID]time.Time
	// missed are changes that a relist found first, with the relist's time.
	missed map[types.UID]time.Time
}

func newStream() stream {
	return stream{reported: map[types.UID]time.Time{}, missed: map[types.UID]time.Time{}}
}

// settled reports whether the stream covered the time since the last relist. CRI
// does not report when a stream has begun; one that outlived two relists has.
func (s *stream) settled() bool {
	return s.open && !s.first.IsZero() && s.last.Sub(s.first) >= settleTime
}

// trusted reports whether relists may be rare.
func (s *stream) trusted(now time.Time) bool {
	return s.settled() && len(s.missed) == 0 && !now.Before(s.mistrustedUntil)
}

// noteRelist notes a relist that succeeded.
func (s *stream) noteRelist(at time.Time) {
	if s.open && s.first.IsZero() {
		s.first = at
	}
	s.last = at
	for uid, t := range s.reported {
		if t.Before(at) {
			delete(s.reported, uid)
		}
	}
}

// noteMissed notes a change that a relist showed and that the stream should have
// reported. The event may still be on its way.
func (s *stream) noteMissed(uid types.UID, e *entry, listed time.Time) {
	if !s.settled() {
		return
	}
	if t, ok := s.reported[uid]; ok && (e.status == nil || !t.Before(e.status.At)) {
		return
	}
	if _, ok := s.missed[uid]; !ok {
		s.missed[uid] = listed
	}
}

// checkStream stops trusting a stream that did not report a change in time.
func (p *PLEG) checkStream(now time.Time) {
	s := &p.stream
	for uid, at := range s.missed {
		if now.Sub(at) < eventGrace {
			continue
		}
		if !now.Before(s.mistrustedUntil) {
			p.log.Warn("Runtime event stream missed a change, relisting every second",
				"uid", uid, "for", MistrustFor)
		}
		s.mistrustedUntil = now.Add(MistrustFor)
		delete(s.missed, uid)
	}
}

// logKind logs when relists become rare.
func (p *PLEG) logKind(now time.Time) {
	evented := p.stream.settled() && !now.Before(p.stream.mistrustedUntil)
	if evented == p.stats.Evented {
		return
	}
	p.stats.Evented = evented
	if evented {
		p.log.Info("Using the event stream of the runtime")
	}
}

// streamLoop keeps the event stream open.
func (p *PLEG) streamLoop(ctx context.Context) {
	delay, said := streamRetryMin, ""
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		p.mu.Lock()
		p.stream.open = true
		p.mu.Unlock()
		err := p.runtime.Events(ctx, p.hint)
		lived := p.endStream()
		if ctx.Err() != nil {
			return
		}
		if lived {
			delay, said = streamRetryMin, ""
		}
		wait := delay
		delay = min(2*delay, streamRetryMax)
		if errors.Is(err, cri.ErrUnimplemented) {
			wait, delay = streamRetryNone, streamRetryMin
		}
		if text := err.Error(); text != said {
			p.log.Info("No event stream from the runtime, relisting every second", "err", err)
			said = text
		}
		timer.Reset(wait)
	}
}

// endStream notes that the stream is down and reports whether it had settled.
// Relists take over at once.
func (p *PLEG) endStream() bool {
	p.mu.Lock()
	lived := p.stream.settled()
	p.stream.open = false
	p.stream.first = time.Time{}
	p.stats.Evented = false
	clear(p.stream.reported)
	clear(p.stream.missed)
	p.mu.Unlock()
	p.relistNotify.Notify()
	return lived
}

// hint handles one event of the stream. It does not block.
func (p *PLEG) hint(e cri.Event) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Hints++
	if e.UID == "" {
		e.UID = p.cache.owner(e.ContainerID)
	}
	if e.UID == "" || e.Foreign {
		// A pod of another client, or an unknown one: only a relist can show it.
		p.list.desired = true
		p.relistNotify.Notify()
		return
	}
	p.stream.reported[e.UID] = now
	delete(p.stream.missed, e.UID)
	if e.Kind == cri.EventCreated {
		// As in the kubelet: the worker that created it starts it next.
		return
	}
	p.inspections.hint(e, now)
	p.inspectNotify.Notify()
}

// owner returns the pod that has a container or sandbox of this ID, empty if none
// has.
func (c *cache) owner(id string) types.UID {
	for uid, e := range c.pods {
		if e.status != nil && (container(e.status.Containers, id) != nil || sandbox(e.status.Sandboxes, id) != nil) {
			return uid
		}
	}
	return ""
}
