package probe

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// attempts is how often a probe that could not be run is tried (kubelet: 3).
	attempts = 3
	// maxOutput is how much of a response is read, in bytes (kubelet: 10 KiB).
	maxOutput = 10 << 10
	// maxHeaders is how much the headers of a response may have, in bytes, and
	// maxHealth how much a gRPC response. Go's own limits are megabytes.
	maxHeaders = 64 << 10
	maxHealth  = 16 << 10

	// Reasons of events, the kubelet's.
	reasonUnhealthy = "Unhealthy"
	reasonWarning   = "ProbeWarning"
)

// probeRequest is one run of a probe.
type probeRequest struct {
	target
	pod     *v1.Pod
	kind    Kind
	probe   *v1.Probe
	timeout time.Duration
}

// probeResult is the result of a probe. An error instead means that the probe
// could not be run, which does not count as a failure.
type probeResult struct {
	ok bool
	// warning: it counts as success, but the text is recorded as an event.
	warning bool
	text    string
}

func failedResult(text string) probeResult { return probeResult{text: text} }

// actions runs the actions of probes and hooks.
type actions struct {
	exec  Execer
	http  *http.Client
	agent string
}

func newActions(cfg Config) actions {
	return actions{exec: cfg.Exec, http: newHTTPClient(), agent: cfg.UserAgent}
}

// runProbe runs a probe, records an event if its result is not good, and reports
// whether there is a result and whether it is a success.
func (p *Prober) runProbe(ctx context.Context, q probeRequest) (responded, ok bool) {
	var a probeResult
	var err error
	for range attempts {
		if a, err = p.actions.run(ctx, q); err == nil || ctx.Err() != nil {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, false
	case err != nil:
		p.event(q, reasonUnhealthy, " probe errored and resulted in unknown state: "+err.Error())
		return false, false
	case a.warning:
		p.event(q, reasonWarning, " probe warning: "+a.text)
	case !a.ok:
		p.event(q, reasonUnhealthy, " probe failed: "+a.text)
	}
	return true, a.ok
}

// event records an event in the kubelet's words. Those name the container in a
// field that only the API server's events have, so that here the text ends with
// the container if the pod has several: otherwise two that fail alike would be
// one event.
func (p *Prober) event(q probeRequest, reason, text string) {
	if p.cfg.Events == nil {
		return
	}
	text = q.kind.String() + strings.TrimRight(text, "\n")
	if len(q.pod.Spec.InitContainers)+len(q.pod.Spec.Containers) > 1 {
		text += " (container " + q.container.Name + ")"
	}
	p.cfg.Events.Event(q.pod, v1.EventTypeWarning, reason, text)
}

var errNoAction = errors.New("the probe has no action; set exec, httpGet, tcpSocket or grpc")

func (a *actions) run(ctx context.Context, q probeRequest) (probeResult, error) {
	if q.probe.Exec != nil {
		return a.probeExec(ctx, q)
	}
	// The runtime enforces the timeout of a command; for all others we do.
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	switch {
	case q.probe.HTTPGet != nil:
		return a.probeHTTP(ctx, q)
	case q.probe.TCPSocket != nil:
		return probeTCP(ctx, q)
	case q.probe.GRPC != nil:
		return a.probeGRPC(ctx, q)
	}
	return probeResult{}, errNoAction
}
