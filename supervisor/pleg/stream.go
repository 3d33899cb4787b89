package pleg

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// Delays before the stream is tried again. A runtime that has none may be
// replaced by one that has while the daemon runs.
const (
	streamRetryMin  = time.Second
	streamRetryMax  = 30 * time.Second
	streamRetryNone = 10 * time.Minute
)

// stream is what is known of the runtime's event stream. It is guarded by
// PLEG.mu.
type stream struct {
	// standing is set while a stream was asked for and has not ended.
	standing bool
	// first and last are the times of the first and the last full list since.
	first, last time.Time
	// doubted is the time until which the stream is not trusted.
	doubted time.Time
	// told is when the stream last told of a pod, since the last full list.
	told map[types.UID]time.Time
	// suspects are changes that a full list found first, by the list's time.
	suspects map[types.UID]time.Time
}

func newStream() stream {
	return stream{told: map[types.UID]time.Time{}, suspects: map[types.UID]time.Time{}}
}

// settled reports whether the stream covered the time since the last list.
// Nothing says when a stream has begun; one that outlived two lists has.
func (s *stream) settled() bool {
	return s.standing && !s.first.IsZero() && s.last.Sub(s.first) >= settleTime
}

// trusted reports whether full lists may be rare.
func (s *stream) trusted(now time.Time) bool {
	return s.settled() && len(s.suspects) == 0 && !now.Before(s.doubted)
}

// listed notes a full list that succeeded.
func (s *stream) listed(at time.Time) {
	if s.standing && s.first.IsZero() {
		s.first = at
	}
	s.last = at
	for uid, t := range s.told {
		if t.Before(at) {
			delete(s.told, uid)
		}
	}
}

// found notes a change that a full list showed. If the stream should have
// told of it and has not, it still may: the event can be on its way.
func (s *stream) found(uid types.UID, e *entry, listed time.Time) {
	if !s.settled() {
		return
	}
	if t, ok := s.told[uid]; ok && (e.status == nil || !t.Before(e.status.At)) {
		return
	}
	if _, ok := s.suspects[uid]; !ok {
		s.suspects[uid] = listed
	}
}

// mistrust gives up on a stream that did not tell of a change in time.
func (p *PLEG) mistrust(now time.Time) {
	s := &p.stream
	for uid, at := range s.suspects {
		if now.Sub(at) < tellTime {
			continue
		}
		if !now.Before(s.doubted) {
			p.log.Warn("the runtime's event stream missed a change, listing every second for a while",
				"uid", uid, "for", MistrustFor)
		}
		s.doubted = now.Add(MistrustFor)
		delete(s.suspects, uid)
	}
}

// tellKind logs when the kind of the PLEG changed.
func (p *PLEG) tellKind(now time.Time) {
	evented := p.stream.settled() && !now.Before(p.stream.doubted)
	if evented == p.stats.Evented {
		return
	}
	p.stats.Evented = evented
	if evented {
		p.log.Info("pod changes are told by the runtime's event stream")
	}
}

// streamLoop keeps the event stream standing.
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
		p.stream.standing = true
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
			p.log.Info("no event stream from the runtime, listing pods every second", "reason", err)
			said = text
		}
		timer.Reset(wait)
	}
}

// endStream notes that the stream is down and reports whether it had settled.
// Full lists take over at once.
func (p *PLEG) endStream() bool {
	p.mu.Lock()
	lived := p.stream.settled()
	p.stream.standing = false
	p.stream.first = time.Time{}
	p.stats.Evented = false
	clear(p.stream.told)
	clear(p.stream.suspects)
	p.mu.Unlock()
	wake(p.relistWake)
	return lived
}

// hint takes one event of the stream. It does not block.
func (p *PLEG) hint(e cri.Event) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Hints++
	if e.UID == "" {
		e.UID = p.cache.owner(e.ContainerID)
	}
	if e.UID == "" || e.Foreign {
		// Not a pod of ours, or none that is known: only a list can tell.
		p.list.wanted = true
		wake(p.relistWake)
		return
	}
	p.stream.told[e.UID] = now
	delete(p.stream.suspects, e.UID)
	if e.Kind == cri.EventCreated {
		// As with the kubelet: whoever created it goes on to start it.
		return
	}
	p.looks.hint(e, now)
	wake(p.lookWake)
}

// owner is the pod that has a container or sandbox of this ID, "" if none.
func (c *cache) owner(id string) types.UID {
	for uid, e := range c.pods {
		if e.status != nil && (container(e.status.Containers, id) != nil || sandbox(e.status.Sandboxes, id) != nil) {
			return uid
		}
	}
	return ""
}
