package tracing

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The field numbers of OTLP (opentelemetry.proto, version 1): ExportTraceServiceRequest,
// ResourceSpans, Resource, ScopeSpans, InstrumentationScope, Span, Status, KeyValue, AnyValue.
const (
	requestResourceSpans = 1
	resourceSpansRes     = 1
	resourceSpansScopes  = 2
	resourceAttributes   = 1
	scopeSpansScope      = 1
	scopeSpansSpans      = 2
	scopeName            = 1
	spanTraceID          = 1
	spanID               = 2
	spanParent           = 4
	spanName             = 5
	spanKind             = 6
	spanStart            = 7
	spanEnd              = 8
	spanAttributes       = 9
	spanStatus           = 15
	statusMessage        = 2
	statusCode           = 3
	keyValueKey          = 1
	keyValueValue        = 2
	anyString            = 1

	kindInternal, kindClient = 1, 3
	statusError              = 2
)

// maxText limits names, values and errors, in bytes.
const maxText = 1024

// encode returns an ExportTraceServiceRequest.
func encode(spans []*Span, resource []Attribute) []byte {
	var res []byte
	for _, a := range resource {
		res = message(res, resourceAttributes, keyValue(a))
	}
	scope := message(nil, scopeSpansScope, text(nil, scopeName, "podstead"))
	for _, s := range spans {
		scope = message(scope, scopeSpansSpans, encodeSpan(s))
	}
	return message(nil, requestResourceSpans, message(message(nil, resourceSpansRes, res), resourceSpansScopes, scope))
}

func encodeSpan(s *Span) []byte {
	b := message(nil, spanTraceID, s.traceID[:])
	b = message(b, spanID, s.id[:])
	if s.parent != [8]byte{} {
		b = message(b, spanParent, s.parent[:])
	}
	kind := uint64(kindInternal)
	if s.client {
		kind = kindClient
	}
	b = text(b, spanName, s.name)
	b = protowire.AppendVarint(protowire.AppendTag(b, spanKind, protowire.VarintType), kind)
	b = instant(b, spanStart, s.start)
	// The span's duration does not depend on the clock of the host.
	b = instant(b, spanEnd, s.start.Add(s.end.Sub(s.start)))
	for _, a := range s.attributes {
		b = message(b, spanAttributes, keyValue(a))
	}
	if s.failure != "" {
		status := text(nil, statusMessage, s.failure)
		status = protowire.AppendVarint(protowire.AppendTag(status, statusCode, protowire.VarintType), statusError)
		b = message(b, spanStatus, status)
	}
	return b
}

func keyValue(a Attribute) []byte {
	return message(text(nil, keyValueKey, a.Key), keyValueValue, text(nil, anyString, a.Value))
}

func message(b []byte, field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), content)
}

// text appends a string, which must be UTF-8.
func text(b []byte, field protowire.Number, s string) []byte {
	return message(b, field, []byte(strings.ToValidUTF8(s[:min(len(s), maxText)], "\ufffd")))
}

func instant(b []byte, field protowire.Number, at time.Time) []byte {
	nanos := uint64(min(max(at.UnixNano(), 0), math.MaxInt64))
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), nanos)
}
