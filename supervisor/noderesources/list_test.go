package noderesources

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/supervisor/status"
)

// calls are the calls of all resources of a list.
type calls struct {
	list []string
	// refuse is the call that refuses, fail the one that returns an error.
	refuse, fail string
}

func (c *calls) drain() string {
	defer func() { c.list = nil }()
	return strings.Join(c.list, " ")
}

func (c *calls) refused(call string) *Refusal {
	c.list = append(c.list, call)
	if call == c.refuse {
		return Held(&status.Cause{Reason: call})
	}
	return nil
}

func (c *calls) failed(call string) error {
	c.list = append(c.list, call)
	if call == c.fail {
		return errors.New(call)
	}
	return nil
}

// thing can be given back, and refuses a preview.
type thing struct {
	*calls
	name string
}

func (t thing) Name() string                { return t.name }
func (t thing) Preview(*Candidate) *Refusal { return t.refused(t.name + ".Preview") }
func (t thing) Unprepare(context.Context, types.UID) error {
	return t.failed(t.name + ".Unprepare")
}
func (t thing) Release(context.Context, types.UID, bool) error { return t.failed(t.name + ".Release") }
func (t thing) Forget(context.Context, types.UID) error        { return t.failed(t.name + ".Forget") }

type reserved struct{ thing }

func (r reserved) Reserve(*Start) *Refusal { return r.refused(r.name + ".Reserve") }
func (r reserved) Withdraw(types.UID)      { _ = r.failed(r.name + ".Withdraw") }

type queued struct{ thing }

func (q queued) Queue(*Start) *Refusal { return q.refused(q.name + ".Queue") }
func (q queued) Withdraw(types.UID)    { _ = q.failed(q.name + ".Withdraw") }

func newList() (*List, *calls) {
	c := &calls{}
	return New([]Resource{reserved{thing{c, "a"}}, reserved{thing{c, "b"}}, queued{thing{c, "c"}}, thing{c, "d"}}), c
}

// A refusal leaves the pod with nothing more than it had, and with its turn only where it was refused.
func TestReserve(t *testing.T) {
	for refuse, want := range map[string]string{
		"":          "c.Queue a.Reserve b.Reserve",
		"c.Queue":   "c.Queue a.Withdraw b.Withdraw",
		"a.Reserve": "c.Queue a.Reserve c.Withdraw",
		"b.Reserve": "c.Queue a.Reserve b.Reserve a.Release c.Withdraw",
	} {
		l, c := newList()
		c.refuse = refuse
		refusal := l.Reserve(t.Context(), &Start{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}})
		if got := c.drain(); got != want || (refusal == nil) != (refuse == "") {
			t.Errorf("%s: %s, %v", refuse, got, refusal)
		}
	}
}

// A preview asks in the order of the list and ends at the first refusal; what is given back goes
// backwards and ends at the first error.
func TestOrder(t *testing.T) {
	l, c := newList()
	if refusal := l.Preview(&Candidate{}); refusal != nil || c.drain() != "a.Preview b.Preview c.Preview d.Preview" {
		t.Error(refusal)
	}
	c.refuse, c.fail = "b.Preview", "c.Forget"
	if refusal := l.Preview(&Candidate{}); refusal == nil || refusal.Cause.Reason != "b.Preview" ||
		c.drain() != "a.Preview b.Preview" {
		t.Error(refusal)
	}
	if err := l.Unprepare(t.Context(), "u"); err != nil || c.drain() != "d.Unprepare c.Unprepare b.Unprepare a.Unprepare" {
		t.Error(err)
	}
	if err := l.Release(t.Context(), "u", false); err != nil || c.drain() != "d.Release c.Release b.Release a.Release" {
		t.Error(err)
	}
	if err := l.Forget(t.Context(), "u"); err == nil || c.drain() != "d.Forget c.Forget" {
		t.Error(err)
	}
	l.GiveBack(t.Context(), "u")
	if got := c.drain(); got != "b.Release a.Release" {
		t.Error(got)
	}
	l.Withdraw("u")
	if got := c.drain(); got != "c.Withdraw a.Withdraw b.Withdraw" {
		t.Error(got)
	}
}

type changing struct {
	NeverRefuses
	name     string
	changed  wakeup.Signal
	previews bool
}

func (c changing) Name() string             { return c.name }
func (c changing) Changed() <-chan struct{} { return c.changed.C() }
func (c changing) TakeChanged() ([]types.UID, bool) {
	return []types.UID{types.UID(c.name)}, c.previews
}

// The notifications of all resources become one, which returns what changed once. One that never changes
// is left alone.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := changing{name: "a", changed: wakeup.NewSignal()},
			changing{name: "b", changed: wakeup.NewSignal(), previews: true}
		l := New([]Resource{a, changing{name: "never"}, b})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Run(ctx)
		}()
		a.changed.Notify()
		<-l.Changed()
		if pods, previews := l.TakeChanged(); !slices.Equal(pods, []types.UID{"a"}) || previews {
			t.Error(pods, previews)
		}
		a.changed.Notify()
		b.changed.Notify()
		synctest.Wait()
		<-l.Changed()
		if pods, previews := l.TakeChanged(); !slices.Equal(pods, []types.UID{"a", "b"}) || !previews {
			t.Error(pods, previews)
		}
		if pods, _ := l.TakeChanged(); pods != nil {
			t.Error(pods)
		}
		cancel()
		<-done
	})
}
