package noderesources

import (
	"context"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/wakeup"
)

// List is the resources of a node in their order, by what they do. It is safe for concurrent use.
type List struct {
	all          []Resource
	queuers      []Queuer
	reservers    []Reserver
	preparers    []Preparer
	contributors []Contributor
	unpreparers  []Unpreparer
	releasers    []Releaser
	forgetters   []Forgetter
	retainers    []Retainer
	changers     []Changer
	resizers     []Resizer
	reporters    []Reporter
	finders      []Finder

	changed wakeup.Signal
	// pending has which changers have changed since TakeChanged.
	pending []atomic.Bool
}

// New returns the list. It starts nothing.
func New(resources []Resource) *List {
	l := &List{all: resources, changed: wakeup.NewSignal()}
	for _, r := range resources {
		add(&l.queuers, r)
		add(&l.reservers, r)
		add(&l.preparers, r)
		add(&l.contributors, r)
		add(&l.unpreparers, r)
		add(&l.releasers, r)
		add(&l.forgetters, r)
		add(&l.retainers, r)
		add(&l.changers, r)
		add(&l.resizers, r)
		add(&l.reporters, r)
		add(&l.finders, r)
	}
	slices.Reverse(l.unpreparers)
	slices.Reverse(l.releasers)
	slices.Reverse(l.forgetters)
	l.pending = make([]atomic.Bool, len(l.changers))
	return l
}

// add adds a resource to the list of those that have an interface, if it has it.
func add[T any](to *[]T, r Resource) {
	if t, ok := r.(T); ok {
		*to = append(*to, t)
	}
}

// Preview returns why a revision could not start, nil if it could.
func (l *List) Preview(c *Candidate) *Refusal {
	for _, r := range l.all {
		if refusal := r.Preview(c); refusal != nil {
			return refusal
		}
	}
	return nil
}

// Reserve reserves what a pod needs that is about to start, or returns why it has to wait. Then it holds
// nothing more than before, and waits in no other queue.
func (l *List) Reserve(ctx context.Context, s *Start) *Refusal {
	uid := s.Pod.UID
	for _, q := range l.queuers {
		refusal := q.Queue(s)
		if refusal == nil {
			continue
		}
		if !refusal.KeepsPlace {
			l.withdraw(uid, q)
		}
		return refusal
	}
	for i, r := range l.reservers {
		refusal := r.Reserve(s)
		if refusal == nil {
			continue
		}
		for _, earlier := range slices.Backward(l.reservers[:i]) {
			_ = earlier.Release(ctx, uid, false) // nothing runs, and nothing can fail
		}
		for _, q := range l.queuers {
			q.Withdraw(uid)
		}
		return refusal
	}
	return nil
}

// GiveBack releases what was reserved for a pod that has no sandbox.
func (l *List) GiveBack(ctx context.Context, uid types.UID) {
	for _, r := range slices.Backward(l.reservers) {
		_ = r.Release(ctx, uid, false)
	}
}

// Withdraw takes the turn of a pod in all queues from it.
func (l *List) Withdraw(uid types.UID) { l.withdraw(uid, nil) }

func (l *List) withdraw(uid types.UID, except Resource) {
	for _, q := range l.queuers {
		if Resource(q) != except {
			q.Withdraw(uid)
		}
	}
	for _, r := range l.reservers {
		if Resource(r) != except {
			r.Withdraw(uid)
		}
	}
}

// Preparers returns the resources that are to be prepared, in their order. They must not be written to.
func (l *List) Preparers() []Preparer { return l.preparers }

// Contribute adds to what a container is created with.
func (l *List) Contribute(ctx context.Context, pod *v1.Pod, c *v1.Container, in *cri.Inputs) error {
	for _, r := range l.contributors {
		if err := r.Contribute(ctx, pod, c, in); err != nil {
			return err
		}
	}
	return nil
}

// Unprepare, Release and Forget go backwards, and end at the first error: they are repeated.

// Unprepare gives back what a pod must not have any more when it counts as stopped.
func (l *List) Unprepare(ctx context.Context, uid types.UID) error {
	for _, r := range l.unpreparers {
		if err := r.Unprepare(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}

// Release gives back what a stopped pod has.
func (l *List) Release(ctx context.Context, uid types.UID, restarts bool) error {
	for _, r := range l.releasers {
		if err := r.Release(ctx, uid, restarts); err != nil {
			return err
		}
	}
	return nil
}

// Forget removes what is left of a pod that no source wants.
func (l *List) Forget(ctx context.Context, uid types.UID) error {
	for _, r := range l.forgetters {
		if err := r.Forget(ctx, uid); err != nil {
			return err
		}
	}
	return nil
}

// Retain gives back what all pods have but those that keep reports.
func (l *List) Retain(keep func(types.UID) bool, complete bool) {
	for _, r := range l.retainers {
		r.Retain(keep, complete)
	}
}

// CheckResize returns why a pod that runs cannot get other resources for good, nil if it can.
func (l *List) CheckResize(has, wants *v1.Pod) error {
	for _, r := range l.resizers {
		if err := r.CheckResize(has, wants); err != nil {
			return err
		}
	}
	return nil
}

// Resize applies the resources of a pod that runs.
func (l *List) Resize(ctx context.Context, pod *v1.Pod, observed *cri.PodStatus) error {
	for _, r := range l.resizers {
		if err := r.Resize(ctx, pod, observed); err != nil {
			return err
		}
	}
	return nil
}

// Status returns the health of what a pod has, by container; nil if nothing is known of it.
func (l *List) Status(uid types.UID) (all map[string][]v1.ResourceStatus) {
	for _, r := range l.reporters {
		for container, list := range r.Status(uid) {
			if all == nil {
				all = map[string][]v1.ResourceStatus{}
			}
			all[container] = append(all[container], list...)
		}
	}
	return all
}

// Found returns the pods that have something on this host.
func (l *List) Found() (uids []types.UID) {
	for _, r := range l.finders {
		uids = append(uids, r.Found()...)
	}
	return uids
}

// Reappeared returns the pods that have something again which was released a moment ago, and whether to
// ask again.
func (l *List) Reappeared() (uids []types.UID, again bool) {
	for _, r := range l.finders {
		found, more := r.Reappeared()
		uids, again = append(uids, found...), again || more
	}
	return uids, again
}
