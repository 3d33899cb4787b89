package config

import (
	"cmp"

	"github.com/podstead/podstead/config/kubeletconfig"
)

// Tracing are the settings of traces. They have no flag, as at the kubelet.
type Tracing struct {
	// Endpoint is host:port of a collector with OTLP over gRPC.
	Endpoint string
	// PerMillion is how many of a million traces are recorded; 0 records none.
	PerMillion int
}

// defaultTracingEndpoint is OpenTelemetry's.
const defaultTracingEndpoint = "localhost:4317"

func (t *Tracing) merge(c *kubeletconfig.Tracing) {
	if c.SamplingRatePerMillion != nil {
		t.Endpoint, t.PerMillion = cmp.Or(c.Endpoint, defaultTracingEndpoint), *c.SamplingRatePerMillion
	}
}

func (t *Tracing) fields() map[string]any {
	if t.PerMillion == 0 {
		return nil
	}
	return map[string]any{"tracing": map[string]any{"endpoint": t.Endpoint, "samplingRatePerMillion": t.PerMillion}}
}
