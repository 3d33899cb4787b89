package daemon

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/tracing"
)

// openTracing creates the tracer, if tracing is configured.
func (d *daemon) openTracing() error {
	o := d.opts.Tracing
	if o.PerMillion == 0 {
		return nil
	}
	var err error
	d.tracer, err = tracing.New(tracing.Config{
		Endpoint: o.Endpoint, PerMillion: o.PerMillion, Log: d.log,
		Resource: []tracing.Attribute{{Key: "service.name", Value: "podstead"},
			{Key: "service.version", Value: buildinfo.Version()}, {Key: "k8s.node.name", Value: d.nodeName}},
	})
	if err == nil {
		d.start(d.tracer.Run)
	}
	return err
}

// traceSync returns the supervisor's Trace; nil without tracing.
func (d *daemon) traceSync() func(ctx context.Context, name string, pod *v1.Pod) (context.Context, func(error)) {
	if d.tracer == nil {
		return nil
	}
	return func(ctx context.Context, name string, pod *v1.Pod) (context.Context, func(error)) {
		// The kubelet's attributes.
		ctx, span := d.tracer.Start(ctx, name, tracing.Attribute{Key: "k8s.pod.name", Value: pod.Name},
			tracing.Attribute{Key: "k8s.namespace.name", Value: pod.Namespace},
			tracing.Attribute{Key: "k8s.pod.uid", Value: string(pod.UID)})
		return ctx, span.End
	}
}
