package wait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
)

// Target is an object that is waited for.
type Target struct {
	// Namespace is empty for any namespace.
	Namespace, Name string
	Condition       Condition
	// Existed is set once the object was seen.
	Existed bool
	object  *objects.Object
	done    bool
	// revision is the hash of the revision that is waited for, empty for none.
	revision string
	// explained is the object whose cause was looked for, nil for none.
	explained *objects.Object
}

// Waiter waits until all targets meet their conditions.
type Waiter struct {
	Client  *client.Client
	Out     io.Writer
	ErrOut  io.Writer
	Timeout time.Duration
	Kind    *objects.Kind
	Targets []*Target
	// Verb follows the name of an object in the message that its condition is met.
	Verb string
	// check is called periodically and ends the wait with its error; nil for none.
	check func(context.Context) error
	// mu protects the targets while the watch runs.
	mu sync.Mutex
}

// checkPeriod is the period of check, which covers state that cannot be watched.
const checkPeriod = time.Second

// errAllMet ends the watch when all conditions are met.
var errAllMet = errors.New("all conditions are met")

// Run waits. It returns a TimeoutError if the timeout expires first.
func (w *Waiter) Run(ctx context.Context) error {
	q := objects.Query{Kind: w.Kind}
	l, err := q.List(ctx, w.Client)
	if err != nil {
		return err
	}
	for _, o := range l.Objects {
		if err := w.observe(objects.Change{Type: "ADDED", Object: o}); err != nil {
			return err
		}
	}
	p := terminal.NewProgress(w.ErrOut)
	defer p.Clear()
	if err := w.evaluate(ctx, p); err != nil {
		return w.result(ctx, p, err)
	}
	if err := w.checkRejected(ctx); err != nil && !client.IsUnreachable(err) {
		return w.result(ctx, p, err)
	}
	limited, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	watched, stop := context.WithCancelCause(limited)
	defer stop(nil)
	go w.runChecks(watched, stop, p)
	err = q.Watch(watched, w.Client, l, func(ch objects.Change) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.observe(ch); err != nil {
			return err
		}
		return w.evaluate(limited, p)
	}, p.Println)
	if cause := context.Cause(watched); cause != nil && !errors.Is(err, errAllMet) {
		err = cause
	}
	stop(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.result(ctx, p, err)
}

// runChecks calls check until the context ends, updates the elapsed time, and evaluates the conditions
// again, which depend on the time. It repeats the state every 30 s.
func (w *Waiter) runChecks(ctx context.Context, stop context.CancelCauseFunc, p *terminal.Progress) {
	tick, again := time.NewTicker(checkPeriod), time.NewTicker(repeatPeriod)
	defer tick.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			if err := w.repeat(ctx, p); err != nil {
				stop(err)
				return
			}
			continue
		case <-tick.C:
		}
		p.Tick()
		if err := w.recheck(ctx, p); err != nil {
			stop(err)
			return
		}
	}
}

// recheck evaluates the conditions and calls check.
func (w *Waiter) recheck(ctx context.Context, p *terminal.Progress) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := w.evaluate(ctx, p); err != nil {
		return err
	}
	if w.check == nil {
		return nil
	}
	if err := w.check(ctx); !client.IsUnreachable(err) {
		return err
	}
	return nil
}

// observe records a change of a target.
func (w *Waiter) observe(ch objects.Change) error {
	for _, t := range w.Targets {
		if t.Namespace != "" && ch.Object.Namespace != t.Namespace && w.Kind.Namespaced ||
			!w.Kind.MatchesName(ch.Object, t.Name) {
			continue
		}
		if t.object != nil && t.object.Key() != ch.Object.Key() {
			return fmt.Errorf("%s %q exists in namespaces %s and %s; select one with --namespace", w.Kind.Singular, t.Name,
				t.object.Namespace, ch.Object.Namespace)
		}
		t.object, t.Existed = ch.Object, true
		if ch.Type == "DELETED" {
			t.object = nil
		}
	}
	return nil
}

// evaluate returns errAllMet when all conditions are met. A condition that was met once
// counts, even if it is not met any more.
func (w *Waiter) evaluate(ctx context.Context, p *terminal.Progress) error {
	left := 0
	first := ""
	for _, t := range w.Targets {
		if t.done {
			continue
		}
		met, _, err := t.Condition(t.object)
		if err != nil {
			return err
		}
		if met {
			t.done = true
			p.Clear()
			verb := w.Verb
			if verb == verbDeleted && !t.Existed {
				verb = "not found"
			}
			if _, err := fmt.Fprintf(w.Out, "%s %s\n", w.nameOf(t), verb); err != nil {
				return err
			}
			continue
		}
		if left++; left == 1 {
			if t.object != t.explained {
				w.explain(ctx, t)
			}
			first = w.nameOf(t) + ": " + w.state(t)
		}
	}
	if left == 0 {
		return errAllMet
	}
	if left > 1 {
		first = fmt.Sprintf("%s (and %d more)", first, left-1)
	}
	p.Show(first)
	return nil
}

// nameOf returns TYPE/NAME of a target.
func (w *Waiter) nameOf(t *Target) string {
	name := t.Name
	if t.object != nil {
		name = t.object.Name
	}
	return w.Kind.Singular + "/" + name
}

// TimeoutError reports that the conditions were not met in time.
type TimeoutError struct {
	timeout time.Duration
	state   string
}

// Error returns the timeout and the last state.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("timed out after %s: %s", e.timeout, e.state)
}

// result converts the error that ended the watch.
func (w *Waiter) result(ctx context.Context, p *terminal.Progress, err error) error {
	p.Clear()
	switch {
	case errors.Is(err, errAllMet):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &TimeoutError{w.Timeout, w.states(ctx)}
	}
	return err
}
