package podstart

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
)

// Once waits until each pod runs or has failed, in the newest revision that can be
// prepared.
type Once struct {
	// SourcesReady waits for the sources; see supervisor.WaitSourcesReady.
	SourcesReady func(context.Context) error
	// Prepared waits for the preparation of revisions; see rollout.Controller.
	Prepared func(ctx context.Context, held func(name, why string)) error
	// Started waits for the pods; see supervisor.WaitStarted.
	Started func(ctx context.Context, report func(pod *v1.Pod, err error)) error
	Faults  func() []manifest.Fault
}

// Run prints a line for each pod and for each fault of a manifest. The error is ErrNotStarted if a pod or
// manifest failed.
func (o Once) Run(ctx context.Context, w io.Writer) error {
	failed := false
	if err := o.SourcesReady(ctx); err != nil {
		return err
	}
	if err := o.Prepared(ctx, func(name, why string) {
		failed = true
		fmt.Fprintf(w, "%s: failed: %s\n", name, why)
	}); err != nil {
		return err
	}
	err := o.Started(ctx, func(pod *v1.Pod, err error) {
		name := pod.Namespace + "/" + manifest.BaseName(pod)
		if err != nil {
			failed = true
			fmt.Fprintf(w, "%s: failed: %v\n", name, err)
			return
		}
		fmt.Fprintf(w, "%s: %s\n", name, pod.Status.Phase)
	})
	if err != nil && !errors.Is(err, ErrNotStarted) {
		return err
	}
	for _, f := range o.Faults() {
		if !f.Warning {
			failed = true
			fmt.Fprintf(w, "fault: %v\n", f)
		}
	}
	if failed {
		return ErrNotStarted
	}
	return nil
}
