package oracle

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/podstead/podstead/internal/tracing"
	"github.com/podstead/podstead/internal/tracing/tracingtest"
)

// What podstead exports is a message of OpenTelemetry's own types, without unknown fields.
func TestExportedTraces(t *testing.T) {
	collector, address := tracingtest.Listen(t, "127.0.0.1:0")
	tracer, err := tracing.New(tracing.Config{Endpoint: address, PerMillion: 1_000_000, Log: slog.New(slog.DiscardHandler),
		Resource: []tracing.Attribute{{Key: "service.name", Value: "podstead"}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tracer.Run(ctx) }()
	traced, span := tracer.Start(ctx, "syncPod", tracing.Attribute{Key: "k8s.pod.name", Value: "p"})
	tracing.StartCall(traced, "RunPodSandbox").End(errors.New("refused"))
	span.End(nil)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var spans []*tracepb.Span
	for _, request := range collector.Requests() {
		// The request's own package needs an HTTP gateway; TracesData has its encoding.
		var data tracepb.TracesData
		if err := proto.Unmarshal(request, &data); err != nil {
			t.Fatal(err)
		}
		for _, r := range data.ResourceSpans {
			if a := r.Resource.Attributes; len(a) != 1 || a[0].Key != "service.name" ||
				a[0].Value.GetStringValue() != "podstead" {
				t.Errorf("resource: %v", r.Resource)
			}
			for _, scope := range r.ScopeSpans {
				if scope.Scope.Name != "podstead" {
					t.Errorf("scope: %v", scope.Scope)
				}
				spans = append(spans, scope.Spans...)
			}
		}
	}
	if len(spans) != 2 {
		t.Fatalf("%d spans: %v", len(spans), spans)
	}
	call, sync := spans[0], spans[1]
	if len(call.ProtoReflect().GetUnknown()) > 0 || len(sync.ProtoReflect().GetUnknown()) > 0 {
		t.Errorf("unknown fields in %v, %v", call, sync)
	}
	if call.Name != "RunPodSandbox" || call.Kind != tracepb.Span_SPAN_KIND_CLIENT ||
		string(call.ParentSpanId) != string(sync.SpanId) || string(call.TraceId) != string(sync.TraceId) ||
		call.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || call.Status.GetMessage() != "refused" ||
		call.EndTimeUnixNano < call.StartTimeUnixNano {
		t.Errorf("call: %v", call)
	}
	if sync.Name != "syncPod" || sync.Kind != tracepb.Span_SPAN_KIND_INTERNAL || len(sync.TraceId) != 16 ||
		len(sync.SpanId) != 8 || len(sync.ParentSpanId) > 0 || sync.Status != nil ||
		sync.Attributes[0].Key != "k8s.pod.name" || sync.Attributes[0].Value.GetStringValue() != "p" ||
		sync.StartTimeUnixNano > call.StartTimeUnixNano {
		t.Errorf("sync: %v", sync)
	}
}
