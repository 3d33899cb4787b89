package wait

import (
	"context"
	"fmt"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cli/objects"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// checkRejected returns an error if a revision that is waited for is not going to be in
// effect: it was rolled back, or another one is in effect on request. What the daemon
// decided about another revision of the manifest specifies nothing about this one.
func (w *Waiter) checkRejected(ctx context.Context) error {
	waited := false
	for _, t := range w.Targets {
		waited = waited || t.revision != ""
	}
	if !waited {
		return nil
	}
	list, err := objects.ListRollouts(ctx, w.Client)
	if err != nil {
		return err
	}
	for i := range list {
		r := &list[i]
		if r.State != api.RolloutRolledBack && r.State != api.RolloutUndone {
			continue
		}
		for _, t := range w.Targets {
			if t.revision == "" || t.revision != r.Manifest || t.Namespace != "" && t.Namespace != r.Namespace {
				continue
			}
			if err := w.rejected(ctx, t, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// rejected returns an error if the pod of a rollout is the target and runs another revision:
// the last good one may be this one too, with other images.
func (w *Waiter) rejected(ctx context.Context, t *Target, r *api.Rollout) error {
	q := objects.Query{Kind: w.Kind, Namespace: r.Namespace, Names: []string{r.Name}}
	l, err := q.List(ctx, w.Client)
	if err != nil || len(l.Objects) == 0 {
		return err
	}
	p, err := objects.DecodePod(l.Objects[0])
	if err != nil {
		return err
	}
	if !w.Kind.MatchesName(l.Objects[0], t.Name) || p.Annotations[podinfo.AnnotationHash] == t.revision {
		return nil
	}
	return fmt.Errorf("pod %s will not run this revision: %s; correct the manifest, or use podstead rollout retry %s",
		r.Name, objects.RolloutCause(r), manifest.BaseName(p))
}
