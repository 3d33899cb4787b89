package wait

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/podtable"
)

// resizing returns what the resize of a pod waits for, empty if the pod has the resources of its manifest.
func resizing(p *v1.Pod) string {
	if text := podtable.Resize(p); text != "" {
		return terminal.OneLine(text)
	}
	if !podtable.Resized(p) {
		return "its resize is in progress"
	}
	return ""
}

// infeasible returns an error if the node can never give a pod the resources of its manifest. Up to settleTime after
// the manifest changed, the status may be about the previous revision.
func infeasible(p *v1.Pod) error {
	if !podtable.Infeasible(p) {
		return nil
	}
	return fmt.Errorf("pod %s keeps its previous resources: %s; correct the resources in its manifest", p.Name,
		terminal.OneLine(podtable.Resize(p)))
}

// cannotResize is infeasible for an object, which is nil for none.
func cannotResize(o *objects.Object) error {
	p, err := objects.DecodePod(o)
	if err != nil || p == nil {
		return nil
	}
	return infeasible(p)
}

// checkSettled returns a check that calls checkRejected, and after settleTime also checkResizes and more, which may be
// nil.
func (w *Waiter) checkSettled(more func(context.Context) error) func(context.Context) error {
	began := time.Now()
	return func(ctx context.Context) error {
		if err := w.checkRejected(ctx); err != nil || time.Since(began) < settleTime {
			return err
		}
		if err := w.checkResizes(); err != nil || more == nil {
			return err
		}
		return more(ctx)
	}
}

// checkResizes returns an error if a target runs its revision and cannot get the resources of it. w.mu is held.
func (w *Waiter) checkResizes() error {
	for _, t := range w.Targets {
		if t.revision == "" || t.done {
			continue
		}
		p, err := objects.DecodePod(t.object)
		if err != nil || p == nil || p.Annotations[podinfo.AnnotationHash] != t.revision && string(p.UID) != t.revision {
			continue
		}
		if err := infeasible(p); err != nil {
			return err
		}
	}
	return nil
}
