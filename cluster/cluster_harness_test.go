package cluster

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/manifest"
)

// clusterHarness is a node with static pods whose adapter runs against a fake
// API server, in a synctest bubble.
type clusterHarness struct {
	*fakeAPI
	t testing.TB
	a *Adapter

	mu   sync.Mutex
	pods map[string]*v1.Pod
	// revisions are static pods of one name, in the order in which they are listed.
	revisions []*v1.Pod
	// bound holds the pods of the last set that was delivered, ended those
	// that have terminated completely.
	bound  map[types.UID]*v1.Pod
	ended  map[types.UID]bool
	events []v1.Event
	logged bytes.Buffer
	// The notification channels of statuses and of events.
	changed, happened wakeup.Signal
	end               func()
}

// newClusterHarness returns a harness; start runs it.
func newClusterHarness(t testing.TB) *clusterHarness {
	r := &clusterHarness{
		fakeAPI: newFakeAPI(), t: t, pods: map[string]*v1.Pod{}, bound: map[types.UID]*v1.Pod{}, ended: map[types.UID]bool{},
		changed: wakeup.NewSignal(), happened: wakeup.NewSignal(),
	}
	r.a = newAdapter(Config{
		Node: described, Pods: Pods{List: r.list, Delivered: func(string) bool { return true }, Ended: r.hasEnded, Bound: r},
		Subscribe: func() (<-chan struct{}, func()) { return r.changed.C(), func() {} },
		Log:       slog.New(slog.NewTextHandler(harnessLog{r}, nil)), Events: harnessEvents{r},
	})
	c, err := newClient(r.config(), r.a.connection, RateLimit{}, RateLimit{})
	if err != nil {
		t.Fatal(err)
	}
	r.a.setClient(c)
	return r
}

// start runs the adapter until the test ends or stop is called.
func (r *clusterHarness) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error)
	go func() { done <- r.a.Run(ctx) }()
	r.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			r.t.Errorf("it ends with %v", err)
		}
	})
	synctest.Wait()
}

// pass advances the time and waits until everything that follows from it is
// done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *clusterHarness) list() (pods []*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.bound {
		pods = append(pods, p)
	}
	for _, p := range r.pods {
		pods = append(pods, p)
	}
	return append(pods, r.revisions...)
}

// Deliver accepts the API pods, with the local statuses of known ones.
func (r *clusterHarness) Deliver(set manifest.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.bound
	r.bound = map[types.UID]*v1.Pod{}
	for _, d := range set.Units[0].Documents {
		p := d.Pod.DeepCopy()
		p.Annotations = map[string]string{podinfo.AnnotationSource: "api"}
		if known := before[p.UID]; known != nil {
			p.Status = known.Status
		}
		r.bound[p.UID] = p
	}
	r.changed.Notify()
}

func (r *clusterHarness) hasEnded(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[uid]
}

// show gives an API pod another local status.
func (r *clusterHarness) show(uid types.UID, change func(*v1.PodStatus)) {
	r.mu.Lock()
	p := r.bound[uid].DeepCopy()
	change(&p.Status)
	r.bound[uid] = p
	r.mu.Unlock()
	r.changed.Notify()
}

// over marks an API pod as terminated completely.
func (r *clusterHarness) over(uid types.UID) {
	r.mu.Lock()
	r.ended[uid] = true
	r.mu.Unlock()
	r.changed.Notify()
}

// harnessLog collects what the adapter logs.
type harnessLog struct{ *clusterHarness }

func (l harnessLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logged.Write(p)
}

// warnings returns the warnings that were logged since the last call.
func (r *clusterHarness) warnings() (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.logged.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			lines = append(lines, line)
		}
	}
	r.logged.Reset()
	return lines
}

// run sets a static pod of that revision, which runs.
func (r *clusterHarness) run(name, revision string) {
	p := aStatic()
	p.Name, p.UID = name+"-edge", types.UID(revision)
	p.Annotations = map[string]string{podinfo.AnnotationHash: revision, podinfo.AnnotationSource: "file"}
	r.set(p)
}

// removeStatic removes a static pod.
func (r *clusterHarness) removeStatic(name string) {
	r.mu.Lock()
	delete(r.pods, "default/"+name+"-edge")
	r.mu.Unlock()
	r.changed.Notify()
}

func (r *clusterHarness) set(p *v1.Pod) {
	r.mu.Lock()
	r.pods[key(p)] = p
	r.mu.Unlock()
	r.changed.Notify()
}

// setAll replaces all static pods with these.
func (r *clusterHarness) setAll(pods ...*v1.Pod) {
	r.mu.Lock()
	clear(r.pods)
	r.revisions = pods
	r.mu.Unlock()
	r.changed.Notify()
}

// mirror returns the mirror of a pod, nil if there is none.
func (r *clusterHarness) mirror(name string) *v1.Pod {
	r.t.Helper()
	m := &v1.Pod{}
	if !r.get(r.t, "pods", "default", name+"-edge", m) {
		return nil
	}
	return m
}

// harnessEvents is the event store of a clusterHarness.
type harnessEvents struct{ *clusterHarness }

func (e harnessEvents) List() []v1.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]v1.Event(nil), e.events...)
}

func (e harnessEvents) Subscribe() (<-chan struct{}, func()) { return e.happened.C(), func() {} }

// eventsAtMost is the number of events that are kept.
const eventsAtMost = 100

func (e harnessEvents) Event(pod *v1.Pod, eventType, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := metav1.Now()
	n := v1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default",
			Name: "event-" + strconv.Itoa(time.Now().Nanosecond()) + strconv.Itoa(len(e.events)) + now.String()},
		Type: eventType, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
	}
	if pod != nil {
		n.InvolvedObject = v1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	}
	e.events = append(e.events, n)
	if len(e.events) > eventsAtMost {
		e.events = e.events[1:]
	}
	e.happened.Notify()
}
