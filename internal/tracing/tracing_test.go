package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/podstead/podstead/internal/tracing"
	"github.com/podstead/podstead/internal/tracing/tracingtest"
)

// newTracer returns a running tracer, what stops it, and its log.
func newTracer(t *testing.T, endpoint string, rate int) (*tracing.Tracer, func() string) {
	t.Helper()
	var log bytes.Buffer
	tracer, err := tracing.New(tracing.Config{Endpoint: endpoint, PerMillion: rate,
		Log:      slog.New(slog.NewTextHandler(&log, nil)),
		Resource: []tracing.Attribute{{Key: "service.name", Value: "podstead"}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tracer.Run(ctx) }()
	return tracer, func() string {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		return log.String()
	}
}

// A real collector receives spans as a tree, with attributes and errors, and the server of a
// call learns the span.
func TestSpansReachACollector(t *testing.T) {
	collector, address := tracingtest.Listen(t, "127.0.0.1:0")
	tracer, stop := newTracer(t, address, 1_000_000)
	ctx, root := tracer.Start(t.Context(), "syncPod", tracing.Attribute{Key: "k8s.pod.name", Value: "p\xff"})
	var parent string
	call := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		sent, _ := metadata.FromOutgoingContext(ctx)
		parent = strings.Join(sent.Get("traceparent"), " ")
		return errors.New("refused")
	}
	if err := tracing.Interceptor(ctx, "/runtime.v1.RuntimeService/RunPodSandbox", nil, nil, nil, call); err == nil ||
		err.Error() != "refused" {
		t.Errorf("the call returned %v", err)
	}
	root.End(nil)
	// A call that belongs to no span is passed on as it is.
	if err := tracing.Interceptor(t.Context(), "/runtime.v1.RuntimeService/Version", nil, nil, nil, call); err == nil ||
		parent != "" {
		t.Errorf("a call without a span has the parent %q", parent)
	}
	if log := stop(); log != "" {
		t.Errorf("log: %s", log)
	}
	spans, err := collector.Spans()
	if err != nil {
		t.Fatal(err)
	}
	if len(spans) != 2 {
		t.Fatalf("%d spans: %v", len(spans), spans)
	}
	child, sync := spans[0], spans[1]
	if sync.Name != "syncPod" || len(sync.TraceID) != 16 || sync.Parent != "" || sync.Kind != 1 || sync.Failed ||
		sync.Attributes["k8s.pod.name"] != "p\ufffd" {
		t.Errorf("sync: %+v", sync)
	}
	if child.Name != "runtime.v1.RuntimeService/RunPodSandbox" || child.TraceID != sync.TraceID ||
		child.Parent != sync.ID || len(child.ID) != 8 || child.Kind != 3 || !child.Failed || child.Message != "refused" {
		t.Errorf("call: %+v", child)
	}
	if child.Start < sync.Start || child.End > sync.End || child.End < child.Start {
		t.Errorf("times: %+v, %+v", child, sync)
	}
}

func TestTraceparent(t *testing.T) {
	tracer, stop := newTracer(t, "127.0.0.1:1", 1_000_000)
	defer stop()
	_, span := tracer.Start(t.Context(), "x")
	if got := span.Traceparent(); !regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`).MatchString(got) {
		t.Errorf("traceparent %q", got)
	}
}

// Only a part of the traces is recorded, and with a rate of zero or without a tracer none.
func TestSampling(t *testing.T) {
	for rate, want := range map[int][2]int{0: {0, 0}, 500_000: {300, 700}, 1_000_000: {1000, 1000}} {
		tracer, stop := newTracer(t, "127.0.0.1:1", rate)
		recorded := 0
		for range 1000 {
			ctx, span := tracer.Start(t.Context(), "x")
			if (span != nil) != (tracing.StartCall(ctx, "y") != nil) {
				t.Error("a call is recorded without its sync, or a sync without its call")
			}
			if span != nil {
				recorded++
			}
		}
		stop()
		if recorded < want[0] || recorded > want[1] {
			t.Errorf("rate %d: %d of 1000 traces", rate, recorded)
		}
	}
	var none *tracing.Tracer
	_, span := none.Start(t.Context(), "x")
	span.End(nil)
	if span != nil {
		t.Error("a tracer that is nil records")
	}
}

// A collector that is away blocks nothing and costs one line of the log; the number of spans
// that wait is bounded.
func TestCollectorIsAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	tracer, stop := newTracer(t, address, 1_000_000)
	for range 10_000 {
		_, span := tracer.Start(t.Context(), "x")
		span.End(nil)
	}
	if log := stop(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "Failed to export traces") ||
		!strings.Contains(log, address) {
		t.Errorf("log:\n%s", log)
	}
}
