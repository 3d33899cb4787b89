package wait

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/podtable"
)

// repeatPeriod is how often the state is looked up and printed again although it did not change.
const repeatPeriod = 30 * time.Second

// cannotStart returns an error if a pod waits for its sandbox and the runtime can start none: it fails to create
// the process of the sandbox, which is the same for all pods, and no other pod of the node has one either. That
// does not heal by itself, unlike a network or an image that is missing.
func cannotStart(ctx context.Context, c *client.Client, o *objects.Object) error {
	p, err := objects.DecodePod(o)
	if err != nil || p == nil || p.Status.Reason != "FailedCreatePodSandBox" ||
		!strings.Contains(p.Status.Message, "OCI runtime create failed") {
		return nil
	}
	l, err := objects.Query{Kind: objects.PodKind()}.List(ctx, c)
	if err != nil {
		return nil // the wait goes on
	}
	for _, other := range l.Objects {
		if p, err := objects.DecodePod(other); err == nil && hasSandbox(p) {
			return nil
		}
	}
	return fmt.Errorf("the container runtime cannot start any sandbox: %s; %s",
		terminal.OneLine(podtable.Cause(p.Status.Message)), objects.CheckHint)
}

// hasSandbox reports whether the sandbox of a pod runs.
func hasSandbox(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReadyToStartContainers {
			return c.Status == v1.ConditionTrue && !podinfo.IsTerminal(p.Status.Phase)
		}
	}
	return false
}

// repeat looks up the cause of what is waited for again and prints it. The error ends a wait that cannot succeed.
func (w *Waiter) repeat(ctx context.Context, p *terminal.Progress) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.Targets {
		t.explained = nil
		if t.done || t.object == nil || w.Kind.Name != "pods" || w.Verb == verbDeleted {
			continue
		}
		if err := cannotStart(ctx, w.Client, t.object); err != nil {
			return fmt.Errorf("%s: %w", w.nameOf(t), err)
		}
	}
	p.Repeat()
	return w.evaluate(ctx, p)
}
