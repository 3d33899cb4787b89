package wait

import (
	"context"
	"fmt"
	"strings"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
)

// maxStates is the maximum number of objects whose states a timeout names.
const maxStates = 20

// findCause returns why the pod of an object does not run or is not ready, as the commands get
// and status show it: the pod's status alone lacks the last line of a crashed container's log
// and the last failure of a probe. It is empty if there is no cause.
func findCause(ctx context.Context, c *client.Client, o *objects.Object) string {
	p, err := objects.DecodePod(o)
	if err != nil || p == nil {
		return ""
	}
	return objects.Explain(ctx, c, p)
}

// explain looks for the cause of a target that is a pod.
func (w *Waiter) explain(ctx context.Context, t *Target) {
	if t.object == nil || w.Kind.Name != "pods" {
		return
	}
	t.explained = t.object
	t.object.Cause = findCause(ctx, w.Client, t.object)
}

// state returns the state of a target whose condition is not met, with its cause.
func (w *Waiter) state(t *Target) string {
	_, state, err := t.Condition(t.object)
	if err != nil {
		state = err.Error()
	}
	if t.object != nil {
		state = withCause(state, t.object.Cause)
	}
	return state
}

// withCause appends a cause to a state that does not contain it. A state may end with the
// beginning of the cause.
func withCause(state, cause string) string {
	if cause == "" || strings.Contains(state, cause) {
		return state
	}
	for n := min(len(state), len(cause)); n > 0; n-- {
		if begin, ok := strings.CutSuffix(state, cause[:n]); ok && strings.HasSuffix(begin, ": ") {
			return begin + cause
		}
	}
	return state + ": " + cause
}

// states returns the states of the targets whose conditions are not met, one a line.
func (w *Waiter) states(ctx context.Context) string {
	var lines []string
	for _, t := range w.Targets {
		switch {
		case t.done:
			continue
		case len(lines) == maxStates:
			return strings.Join(append(lines, fmt.Sprintf("and %d more", w.left()-maxStates)), "\n")
		}
		w.explain(ctx, t)
		lines = append(lines, w.nameOf(t)+": "+w.state(t))
	}
	return strings.Join(lines, "\n")
}

// left returns the number of targets whose conditions are not met.
func (w *Waiter) left() int {
	n := 0
	for _, t := range w.Targets {
		if !t.done {
			n++
		}
	}
	return n
}

// podOf returns a pod by its name, nil if it does not exist.
func podOf(ctx context.Context, c *client.Client, namespace, name string) (*objects.Object, error) {
	q := objects.Query{Kind: objects.PodKind(), Namespace: namespace, Names: []string{name}}
	l, err := q.List(ctx, c)
	if err != nil || len(l.Objects) == 0 {
		return nil, err
	}
	return l.Objects[0], nil
}
