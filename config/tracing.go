package config

import (
	"net"
	"strconv"
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

const maxSamplingRate = 1_000_000

// settings: nothing is recorded, and nothing shown, without a rate.
func (t *Tracing) settings() []setting {
	ifRecorded := func(v func() any) func(RuntimeDefaults) any {
		return func(RuntimeDefaults) any {
			if t.PerMillion == 0 {
				return nil
			}
			return v()
		}
	}
	return []setting{
		{
			field: "tracing.endpoint", value: text(&t.Endpoint, defaultTracingEndpoint),
			shown: ifRecorded(func() any { return t.Endpoint }),
			check: func(s *setting) {
				host, port, err := net.SplitHostPort(t.Endpoint)
				if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || host == "" {
					s.fail(": %q must be HOST:PORT of a collector with OTLP over gRPC, such as localhost:4317", t.Endpoint)
				}
			},
			help: "HOST:PORT of an OpenTelemetry collector with OTLP over gRPC, without TLS (default localhost:4317)",
		},
		{field: "tracing.samplingRatePerMillion", value: integer(&t.PerMillion, 0, 0, maxSamplingRate),
			shown: ifRecorded(func() any { return t.PerMillion }),
			help:  "how many of a million syncs of pods are traced (default 0)"},
	}
}
