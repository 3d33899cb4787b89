package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
)

const (
	// queueSize and batchSize are the defaults of OpenTelemetry's batch processor.
	queueSize = 2048
	batchSize = 512
	// batchDelay is how long an ended span waits for others.
	batchDelay = 5 * time.Second
	// exportTimeout limits one export; OpenTelemetry's default.
	exportTimeout = 10 * time.Second
	// lastExportTimeout limits the export of what is left when the daemon ends.
	lastExportTimeout = time.Second

	// maxReconnectDelay limits how long a collector that is back waits for spans.
	maxReconnectDelay = 15 * time.Second

	exportMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
)

// Config configures a Tracer.
type Config struct {
	// Endpoint is host:port of a collector that takes OTLP over gRPC, without TLS.
	Endpoint string
	// PerMillion is how many of a million traces are recorded.
	PerMillion int
	// Resource describes this daemon.
	Resource []Attribute
	Log      *slog.Logger
}

// Tracer records spans and exports them. A nil Tracer records nothing.
type Tracer struct {
	cfg     Config
	rate    uint64
	ended   chan *Span
	dropped atomic.Int64
	conn    *grpc.ClientConn
	failing bool
}

// New returns a Tracer, which exports while Run runs. It connects with the first export.
func New(cfg Config) (*Tracer, error) {
	conn, err := grpc.NewClient("passthrough:///"+cfg.Endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Second, Multiplier: 1.6,
			Jitter: 0.2, MaxDelay: maxReconnectDelay}, MinConnectTimeout: exportTimeout}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		return nil, fmt.Errorf("failed to use the tracing endpoint %s: %w", cfg.Endpoint, err)
	}
	return &Tracer{cfg: cfg, rate: uint64(cfg.PerMillion), ended: make(chan *Span, queueSize), conn: conn}, nil
}

// Run exports spans until ctx ends, and then what is left.
func (t *Tracer) Run(ctx context.Context) error {
	defer t.conn.Close()
	var batch []*Span
	// timer runs while a batch waits.
	timer := time.NewTimer(batchDelay)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case s := <-t.ended:
			if batch = append(batch, s); len(batch) == 1 {
				timer.Reset(batchDelay)
			}
			if len(batch) < batchSize {
				continue
			}
		case <-timer.C:
		case <-ctx.Done():
			for len(t.ended) > 0 && len(batch) < queueSize {
				batch = append(batch, <-t.ended)
			}
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastExportTimeout)
			defer cancel()
			t.export(last, batch)
			return nil
		}
		t.export(ctx, batch)
		batch = nil
		timer.Stop()
	}
}

// export sends a batch. What cannot be sent is dropped: a collector that is away must cost
// neither memory nor time. Only the first failure of several is logged.
func (t *Tracer) export(ctx context.Context, batch []*Span) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	request, response := encode(batch, t.cfg.Resource), []byte(nil)
	switch err := t.conn.Invoke(ctx, exportMethod, &request, &response); {
	case err != nil && !t.failing:
		t.failing = true
		t.cfg.Log.Warn("Failed to export traces, dropping spans until the endpoint answers", "endpoint", t.cfg.Endpoint,
			"err", err)
	case err == nil && t.failing:
		t.failing = false
		t.cfg.Log.Info("Exporting traces again", "endpoint", t.cfg.Endpoint, "dropped", t.dropped.Load())
	}
	if t.failing {
		t.dropped.Add(int64(len(batch)))
	}
}

// rawCodec sends and receives messages that are already encoded.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// Name is the name of the wire format.
func (rawCodec) Name() string { return "proto" }
