package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// target is one that is waited for.
type target struct {
	// namespace is empty for any.
	namespace, name string
	until           until
	object          *object
	done            bool
}

// waiter is one call of wait.
type waiter struct {
	cmd     *cobra.Command
	client  *client
	timeout time.Duration
	kind    *kind
	targets []*target
	// verb says in the end what holds.
	verb string
	// check is asked now and then whether waiting still makes sense; nil if
	// there is nothing to ask.
	check func(context.Context) error
}

// checkPeriod is how often check is asked: of what tells no changes.
const checkPeriod = time.Second

// errHolds ends the watch when all holds.
var errHolds = errors.New("what was waited for holds")

func (w *waiter) run(ctx context.Context) error {
	q := query{kind: w.kind}
	l, err := q.list(ctx, w.client)
	if err != nil {
		return err
	}
	for _, o := range l.objects {
		if err := w.see(change{"ADDED", o}); err != nil {
			return err
		}
	}
	p := newProgress(w.cmd.ErrOrStderr())
	defer p.clear()
	if err := w.look(p); err != nil {
		return w.ended(p, err)
	}
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	watched, stop := context.WithCancelCause(limited)
	defer stop(nil)
	go w.checks(watched, stop, p)
	err = q.follow(watched, w.client, l, func(ch change) error {
		if err := w.see(ch); err != nil {
			return err
		}
		return w.look(p)
	}, p.say)
	if cause := context.Cause(watched); cause != nil && !errors.Is(err, errHolds) {
		err = cause
	}
	return w.ended(p, err)
}

// checks asks check until the context ends, and keeps the progress moving.
func (w *waiter) checks(ctx context.Context, stop context.CancelCauseFunc, p *progress) {
	tick := time.NewTicker(checkPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.tick()
		if w.check == nil {
			continue
		}
		if err := w.check(ctx); err != nil && Code(err) != ExitNoDaemon {
			stop(err)
			return
		}
	}
}

// see notes a change of one that is waited for.
func (w *waiter) see(ch change) error {
	for _, t := range w.targets {
		if t.namespace != "" && ch.object.Namespace != t.namespace && w.kind.namespaced || !w.kind.answersTo(ch.object, t.name) {
			continue
		}
		if t.object != nil && t.object.key() != ch.object.key() {
			return fmt.Errorf("%s %q is in namespace %s and in %s; choose one with --namespace", w.kind.singular, t.name, t.object.Namespace, ch.object.Namespace)
		}
		t.object = ch.object
		if ch.kind == "DELETED" {
			t.object = nil
		}
	}
	return nil
}

// look is errHolds when all holds. What held once need not hold for ever.
func (w *waiter) look(p *progress) error {
	left := 0
	first := ""
	for _, t := range w.targets {
		if t.done {
			continue
		}
		done, meanwhile, err := t.until(t.object)
		if err != nil {
			return err
		}
		if done {
			t.done = true
			p.clear()
			if _, err := fmt.Fprintf(w.cmd.OutOrStdout(), "%s %s\n", w.nameOf(t), w.verb); err != nil {
				return err
			}
			continue
		}
		if left++; left == 1 {
			first = w.nameOf(t) + " " + spoken(meanwhile)
		}
	}
	if left == 0 {
		return errHolds
	}
	if left > 1 {
		first = fmt.Sprintf("%s; %d more", first, left-1)
	}
	p.show(first)
	return nil
}

// spoken puts a verb before what has none.
func spoken(text string) string {
	for _, verb := range []string{"is ", "has ", "ends"} {
		if strings.HasPrefix(text, verb) {
			return text
		}
	}
	return "is " + text
}

func (w *waiter) nameOf(t *target) string {
	name := t.name
	if t.object != nil {
		name = t.object.Name
	}
	return w.kind.singular + "/" + name
}

// ended is the result of waiting.
func (w *waiter) ended(p *progress, err error) error {
	p.clear()
	switch {
	case errors.Is(err, errHolds):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		at := slices.IndexFunc(w.targets, func(t *target) bool { return !t.done })
		return &ExitError{Code: ExitTimeout, Err: fmt.Errorf("not within %s: %s", w.timeout, p.last(w.nameOf(w.targets[max(at, 0)])))}
	}
	return err
}
