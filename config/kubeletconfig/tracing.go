package kubeletconfig

import (
	"net"
	"strconv"
)

// Tracing are the fields of tracing.
type Tracing struct {
	// Endpoint is host:port of a collector; empty if not set.
	Endpoint string
	// SamplingRatePerMillion is nil if not set.
	SamplingRatePerMillion *int
}

const maxSamplingRate = 1_000_000

func (p *parser) tracing(name string, v any) {
	fields := p.mapFields(name, v, "endpoint", "samplingRatePerMillion")
	if endpoint, ok := fields["endpoint"]; ok {
		p.text(name+".endpoint", endpoint, &p.cfg.Tracing.Endpoint)
		if text := p.cfg.Tracing.Endpoint; text != "" {
			host, port, err := net.SplitHostPort(text)
			if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || host == "" {
				p.fail(name+".endpoint", "%q must be HOST:PORT of a collector with OTLP over gRPC, such as localhost:4317", text)
			}
		}
	}
	if rate, ok := fields["samplingRatePerMillion"]; ok {
		p.number(name+".samplingRatePerMillion", rate, 0, maxSamplingRate, &p.cfg.Tracing.SamplingRatePerMillion)
	}
}
