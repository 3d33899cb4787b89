package wait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
)

// target is one that is waited for.
type Target struct {
	// namespace is empty for any.
	Namespace, Name string
	Condition       Condition
	object          *objects.Object
	done            bool
}

// waiter is one call of wait.
type Waiter struct {
	Client  *client.Client
	Out     io.Writer
	ErrOut  io.Writer
	Timeout time.Duration
	Kind    *objects.Kind
	Targets []*Target
	// verb says in the end what holds.
	Verb string
	// check is asked now and then whether waiting still makes sense; nil if
	// there is nothing to ask.
	check func(context.Context) error
}

// checkPeriod is how often check is asked: of what tells no changes.
const checkPeriod = time.Second

// errHolds ends the watch when all holds.
var errHolds = errors.New("what was waited for holds")

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
	if err := w.evaluate(p); err != nil {
		return w.ended(p, err)
	}
	limited, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	watched, stop := context.WithCancelCause(limited)
	defer stop(nil)
	go w.checks(watched, stop, p)
	err = q.Watch(watched, w.Client, l, func(ch objects.Change) error {
		if err := w.observe(ch); err != nil {
			return err
		}
		return w.evaluate(p)
	}, p.Println)
	if cause := context.Cause(watched); cause != nil && !errors.Is(err, errHolds) {
		err = cause
	}
	return w.ended(p, err)
}

// checks asks check until the context ends, and keeps the progress moving.
func (w *Waiter) checks(ctx context.Context, stop context.CancelCauseFunc, p *terminal.Progress) {
	tick := time.NewTicker(checkPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.Tick()
		if w.check == nil {
			continue
		}
		if err := w.check(ctx); err != nil && !client.IsUnreachable(err) {
			stop(err)
			return
		}
	}
}

// see notes a change of one that is waited for.
func (w *Waiter) observe(ch objects.Change) error {
	for _, t := range w.Targets {
		if t.Namespace != "" && ch.Object.Namespace != t.Namespace && w.Kind.Namespaced || !w.Kind.MatchesName(ch.Object, t.Name) {
			continue
		}
		if t.object != nil && t.object.Key() != ch.Object.Key() {
			return fmt.Errorf("%s %q is in namespace %s and in %s; choose one with --namespace", w.Kind.Singular, t.Name, t.object.Namespace, ch.Object.Namespace)
		}
		t.object = ch.Object
		if ch.Type == "DELETED" {
			t.object = nil
		}
	}
	return nil
}

// look is errHolds when all holds. What held once need not hold for ever.
func (w *Waiter) evaluate(p *terminal.Progress) error {
	left := 0
	first := ""
	for _, t := range w.Targets {
		if t.done {
			continue
		}
		done, meanwhile, err := t.Condition(t.object)
		if err != nil {
			return err
		}
		if done {
			t.done = true
			p.Clear()
			if _, err := fmt.Fprintf(w.Out, "%s %s\n", w.nameOf(t), w.Verb); err != nil {
				return err
			}
			continue
		}
		if left++; left == 1 {
			first = w.nameOf(t) + " " + withVerb(meanwhile)
		}
	}
	if left == 0 {
		return errHolds
	}
	if left > 1 {
		first = fmt.Sprintf("%s; %d more", first, left-1)
	}
	p.Show(first)
	return nil
}

// spoken puts a verb before what has none.
func withVerb(text string) string {
	for _, verb := range []string{"is ", "has ", "ends"} {
		if strings.HasPrefix(text, verb) {
			return text
		}
	}
	return "is " + text
}

func (w *Waiter) nameOf(t *Target) string {
	name := t.Name
	if t.object != nil {
		name = t.object.Name
	}
	return w.Kind.Singular + "/" + name
}

// timeoutError reports that what was waited for did not happen in time.
type TimeoutError struct {
	timeout time.Duration
	state   string
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("not within %s: %s", e.timeout, e.state) }

// ended is the result of waiting.
func (w *Waiter) ended(p *terminal.Progress, err error) error {
	p.Clear()
	switch {
	case errors.Is(err, errHolds):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		at := slices.IndexFunc(w.Targets, func(t *Target) bool { return !t.done })
		return &TimeoutError{w.Timeout, p.Last(w.nameOf(w.Targets[max(at, 0)]))}
	}
	return err
}
