package pleg

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// fakeRuntime is an in-memory runtime. Its time is the bubble's.
type fakeRuntime struct {
	mu      sync.Mutex
	pods    map[types.UID]*cri.PodStatus
	foreign []*cri.Pod

	listTakes time.Duration
	listErr   error
	stale     *cri.Observed // shown instead of the actual state, with the current time
	lists     []time.Time

	inspections  map[types.UID]int
	lookErr      map[types.UID]error
	inspectGates map[types.UID]chan struct{} // an inspection blocks here after it has read the state

	stream  chan cri.Event
	broken  chan error
	streams []time.Time
	noneErr error // Events fails at once if set
}

func newFake() *fakeRuntime {
	return &fakeRuntime{
		pods:         map[types.UID]*cri.PodStatus{},
		inspections:  map[types.UID]int{},
		lookErr:      map[types.UID]error{},
		inspectGates: map[types.UID]chan struct{}{},
		stream:       make(chan cri.Event, 100),
		broken:       make(chan error),
	}
}

func (f *fakeRuntime) List(ctx context.Context) (*cri.Observed, error) {
	at := time.Now()
	f.mu.Lock()
	f.lists = append(f.lists, at)
	takes, err := f.listTakes, f.listErr
	o := f.observedLocked()
	if f.stale != nil {
		o.Own, o.Foreign = f.stale.Own, f.stale.Foreign
	}
	f.mu.Unlock()
	o.At = at
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(takes):
	}
	return o, err
}

func (f *fakeRuntime) observedLocked() *cri.Observed {
	o := &cri.Observed{Foreign: slices.Clone(f.foreign)}
	for _, st := range f.pods {
		o.Own = append(o.Own, clone(st).Pod())
	}
	return o
}

func (f *fakeRuntime) PodStatus(ctx context.Context, uid types.UID) (*cri.PodStatus, error) {
	at := time.Now()
	f.mu.Lock()
	f.inspections[uid]++
	err := f.lookErr[uid]
	st := &cri.PodStatus{UID: uid}
	if p := f.pods[uid]; p != nil {
		st = clone(p)
	}
	gate := f.inspectGates[uid]
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	st.At = at
	return st, nil
}

func (f *fakeRuntime) Events(ctx context.Context, handle func(cri.Event)) error {
	f.mu.Lock()
	f.streams = append(f.streams, time.Now())
	err := f.noneErr
	f.mu.Unlock()
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-f.broken:
			return err
		case e := <-f.stream:
			handle(e)
		}
	}
}

func clone(st *cri.PodStatus) *cri.PodStatus {
	c := *st
	c.Sandboxes = slices.Clone(st.Sandboxes)
	c.Containers = slices.Clone(st.Containers)
	return &c
}

// change edits the actual state of a pod, which it creates if needed.
func (f *fakeRuntime) change(uid types.UID, edit func(*cri.PodStatus)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.pods[uid]
	if st == nil {
		st = &cri.PodStatus{UID: uid, Name: string(uid), Namespace: "default"}
		f.pods[uid] = st
	}
	edit(st)
	if gone(st) {
		delete(f.pods, uid)
	}
}

// run gives a pod a ready sandbox and one running container with this ID.
func (f *fakeRuntime) run(uid types.UID, id string) {
	f.change(uid, func(st *cri.PodStatus) {
		if len(st.Sandboxes) == 0 {
			st.Sandboxes = []cri.Sandbox{{ID: "sandbox-" + string(uid), Ready: true, IPs: []string{"10.0.0.1"}}}
			st.IPs = []string{"10.0.0.1"}
		}
		c := cri.Container{ID: id, Name: "web", State: cri.StateRunning, StartedAt: time.Now()}
		st.Containers = append([]cri.Container{c}, st.Containers...)
	})
}

func (f *fakeRuntime) exit(uid types.UID, id string) {
	f.change(uid, func(st *cri.PodStatus) { container(st.Containers, id).State = cri.StateExited })
}

func (f *fakeRuntime) remove(uid types.UID) {
	f.change(uid, func(st *cri.PodStatus) { st.Sandboxes, st.Containers = nil, nil })
}

func (f *fakeRuntime) set(edit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit()
}

func (f *fakeRuntime) inspectionsOf(uid types.UID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.inspections[uid]
}

func (f *fakeRuntime) listCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lists)
}

// listsWithin counts the full lists in the next d.
func (f *fakeRuntime) listsWithin(d time.Duration) int {
	before := f.listCount()
	time.Sleep(d)
	synctest.Wait()
	return f.listCount() - before
}

// bubble runs a test with a PLEG over a fake runtime in a synctest bubble.
func bubble(t *testing.T, generic bool, test func(t *testing.T, f *fakeRuntime, p *PLEG)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		p := New(Config{Runtime: f, Generic: generic})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := p.Run(ctx); err != context.Canceled {
				t.Errorf("Run = %v, want %v", err, context.Canceled)
			}
		})
		test(t, f, p)
		cancel()
		wg.Wait()
	})
}

// takeAll waits until all is idle and returns the events as strings.
func takeAll(p *PLEG) []string {
	time.Sleep(5 * time.Millisecond)
	synctest.Wait()
	var words []string
	for _, e := range p.Drain() {
		words = append(words, fmt.Sprintf("%s %s %s", e.UID, e.Kind, e.ContainerID))
	}
	return words
}

func wantEvents(t *testing.T, p *PLEG, want ...string) {
	t.Helper()
	if got := takeAll(p); !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
}
