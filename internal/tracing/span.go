package tracing

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Attribute is a string attribute of a span.
type Attribute struct{ Key, Value string }

// Span is an operation that has begun. A nil Span records nothing.
type Span struct {
	tracer *Tracer

	traceID    [16]byte
	id, parent [8]byte
	// client: the operation is a call of another process.
	client     bool
	name       string
	attributes []Attribute
	start, end time.Time
	// failure is the text of the error; empty without one.
	failure string
}

// contextKey is the key of the current span of a context.
type contextKey struct{}

// perMillion is the unit of the sampling rate.
const perMillion = 1_000_000

// Start begins a span that has no parent, if it is sampled. The context carries it.
func (t *Tracer) Start(ctx context.Context, name string, attributes ...Attribute) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	s := &Span{tracer: t, name: name, attributes: attributes, start: time.Now()}
	_, _ = rand.Read(s.traceID[:]) // never fails
	if binary.BigEndian.Uint64(s.traceID[8:])%perMillion >= t.rate {
		return ctx, nil
	}
	_, _ = rand.Read(s.id[:])
	return context.WithValue(ctx, contextKey{}, s), s
}

// StartCall begins the span of a call of another process, below the span of the context; nil
// if the context has none.
func StartCall(ctx context.Context, name string, attributes ...Attribute) *Span {
	parent, _ := ctx.Value(contextKey{}).(*Span)
	if parent == nil {
		return nil
	}
	s := &Span{tracer: parent.tracer, traceID: parent.traceID, parent: parent.id, client: true, name: name,
		attributes: attributes, start: time.Now()}
	_, _ = rand.Read(s.id[:])
	return s
}

// Traceparent returns the header of W3C Trace Context that makes the spans of another process
// children of this one.
func (s *Span) Traceparent() string {
	return "00-" + hex.EncodeToString(s.traceID[:]) + "-" + hex.EncodeToString(s.id[:]) + "-01"
}

// End ends the span; err is nil if the operation succeeded. The span is dropped if too many
// wait for the collector.
func (s *Span) End(err error) {
	if s == nil {
		return
	}
	s.end = time.Now()
	if err != nil {
		s.failure = err.Error()
	}
	select {
	case s.tracer.ended <- s:
	default:
		s.tracer.dropped.Add(1)
	}
}
