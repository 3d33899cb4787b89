package supervisor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

// Times of the work queue, as in the kubelet (syncFrequency and the worker's
// back-off), each stretched by up to half so that pods do not march in step.
const (
	resyncPeriod = time.Minute
	errorBackoff = 10 * time.Second
	// errorBackoffMin is the wait after a first failure.
	errorBackoffMin = time.Second
	networkBackoff  = time.Second
	jitterFactor    = 0.5
)

func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*jitterFactor*float64(d))
}

// podWorkers are the workers of all pods. Its methods never block on a script
// and never wait for anything but its own lock.
type podWorkers struct {
	syncer syncer
	queue  *workQueue
	spawn  func(w *worker)

	mu sync.Mutex
	// paused holds every script back while the runtime is not healthy.
	paused bool
	byUID  map[types.UID]*worker
	// byName orders the workers of a full name by the time they came, so that
	// the first that waits is the next to start.
	byName map[string][]*worker
	// changed is woken when a worker has finished or is forgotten.
	changed chan struct{}
}

func newPodWorkers(s syncer) *podWorkers {
	return &podWorkers{
		syncer:  s,
		queue:   newWorkQueue(),
		byUID:   map[types.UID]*worker{},
		byName:  map[string][]*worker{},
		changed: make(chan struct{}, 1),
	}
}

// start gives each new worker its goroutine. The wait group is done when all
// have returned.
func (p *podWorkers) start(ctx context.Context, wg *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spawn = func(w *worker) { wg.Go(func() { p.loop(ctx, w) }) }
}

// update takes a pod, or a new revision of it, from a source.
func (p *podWorkers) update(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[pod.UID]
	if !ok {
		w = p.add(pod.UID, podinfo.FullName(pod))
		w.pod, w.wanted = pod, true
		p.move(w, onUpdate)
		p.touch(w)
		p.endIfDeleted(w)
		p.clearName(w)
		return
	}
	before, readded := w.pod, !w.wanted
	w.pod, w.wanted = pod, true
	p.move(w, onUpdate)
	switch {
	case w.state == stateQueued:
		if name := podinfo.FullName(pod); w.name != name {
			p.lineUp(w, name)
		}
	case readded:
		p.again(w, "removed and added again", time.Time{})
	case !sameTemplate(before, pod):
		// Only a uid set in the manifest leads here: any other edit is
		// another UID. The kubelet would apply the image and say nothing.
		p.again(w, "its manifest changed", time.Time{})
	case w.state == stateSyncing && w.cancel != nil && !sameRevision(before, pod):
		// The latest revision wins over the one in flight: a pull of an image
		// that was mistyped must not hold up the correction.
		w.cancel()
	}
	p.touch(w)
	p.endIfDeleted(w)
	p.clearName(w)
}

// reconcile takes a pod of which only the status in the API differs. What this
// daemon wrote there itself asks for nothing.
func (p *podWorkers) reconcile(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[pod.UID]
	if !ok {
		return
	}
	before := w.pod
	w.pod, w.wanted = pod, true
	if before == nil || podinfo.IsTerminal(pod.Status.Phase) != podinfo.IsTerminal(before.Status.Phase) || !status.SameForeignConditions(&before.Status, &pod.Status) {
		p.touch(w)
	}
}

// endIfDeleted ends a pod that an API server is deleting. It stays wanted
// until its source removes it.
func (p *podWorkers) endIfDeleted(w *worker) {
	if w.pod.DeletionTimestamp == nil {
		return
	}
	w.rerun = nil
	p.end(w, onKill, killOrder{reason: killDeleted, message: "it was deleted", grace: w.pod.DeletionGracePeriodSeconds})
}

// remove ends a pod that its source no longer holds, replace one whose name
// another revision has taken.
func (p *podWorkers) remove(uid types.UID)  { p.letGo(uid, whyRemoved) }
func (p *podWorkers) replace(uid types.UID) { p.letGo(uid, whyReplaced) }

// whyRemoved and whyReplaced say why a source no longer holds a pod.
func whyRemoved(source manifest.Source) string {
	if source == manifest.SourceAPI {
		return "the cluster has it no more"
	}
	return "its manifest was removed"
}

func whyReplaced(source manifest.Source) string {
	if source == manifest.SourceAPI {
		return "the cluster has another one of its name"
	}
	return "its manifest changed"
}

func (p *podWorkers) letGo(uid types.UID, why func(manifest.Source) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	if !ok {
		return
	}
	w.wanted, w.rerun = false, nil
	p.end(w, onKill, killOrder{reason: killRemoved, message: why(podinfo.SourceOf(w.pod))})
}

// orphan ends what was found of a pod that no source wants, or of one that has
// finished and yet runs.
func (p *podWorkers) orphan(found *cri.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[found.UID]
	if !ok {
		w = p.add(found.UID, found.FullName())
	}
	if !p.move(w, onOrphan) {
		return
	}
	grace := max(foundGrace(found), 1)
	w.found, w.grace = found, &grace
	w.kill = &killOrder{reason: killOrphan, message: "no source holds its manifest"}
	w.endedAt = time.Now()
	p.touch(w)
}

// Errors of a rerun.
var (
	errUnknownPod  = errors.New("no such pod")
	errUnwantedPod = errors.New("no source holds its manifest")
	errAPIPod      = errors.New("it belongs to the API server, which makes a new pod instead")
	errPodEnded    = errors.New("its restartPolicy or its deadline has ended it; remove its manifest and add it again")
)

// rerun is Supervisor.Rerun. ended tells whether the pod's own restartPolicy
// has ended it.
func (p *podWorkers) rerun(uid types.UID, reason string, notBefore time.Time, ended func(*v1.Pod) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	switch {
	case !ok:
		return fmt.Errorf("cannot run pod %s again: %w", uid, errUnknownPod)
	case !w.wanted:
		return fmt.Errorf("cannot run pod %s again: %w", w.name, errUnwantedPod)
	case podinfo.IsAPI(w.pod):
		return fmt.Errorf("cannot run pod %s again: %w", w.name, errAPIPod)
	case w.kill == nil && !w.displaced && w.state != stateQueued && ended(w.pod):
		return fmt.Errorf("cannot run pod %s again: %w", w.name, errPodEnded)
	}
	p.again(w, reason, notBefore)
	p.touch(w)
	return nil
}

// again makes the pod run again once this run has ended, and ends it if it
// has not. A run that waits to start needs no other.
func (p *podWorkers) again(w *worker, reason string, notBefore time.Time) {
	switch w.state {
	case stateQueued:
		w.notBefore = notBefore
		return
	case stateSyncing:
		p.end(w, onRerun, killOrder{reason: killRerun, message: reason})
	}
	w.rerun = &rerunOrder{reason: reason, notBefore: notBefore}
	if w.state == stateFinished {
		p.runAgain(w)
	}
}

// end applies a decision that ends a run, or that hurries one that is ending.
// The first decision stays; a later one may only shrink the grace.
func (p *podWorkers) end(w *worker, t trigger, order killOrder) {
	was := w.state
	if !p.move(w, t) {
		return
	}
	if w.kill == nil && order.reason != "" {
		w.kill, w.displaced = &order, order.displaced != nil
	}
	grace := w.ownGrace()
	if order.grace != nil {
		grace = *order.grace
	}
	shrunk := w.grace == nil || grace < *w.grace
	if shrunk {
		grace = max(grace, 1)
		w.grace = &grace
	}
	if was != w.state {
		w.endedAt = time.Now()
	}
	switch {
	case was != w.state, shrunk && w.state == stateTerminating:
		if w.cancel != nil {
			w.cancel()
		}
		p.touch(w)
	case w.state == stateFinished:
		p.touch(w)
	}
}

// finished frees the name and what else was for this pod alone, and wakes those
// who wait for it. Nothing polls.
func (p *podWorkers) finished(w *worker) {
	p.wakeSharers(w)
	w.tellEnded()
	for _, other := range p.byName[w.name] {
		if other.state == stateQueued || other.held {
			p.touch(other)
		}
	}
	if w.rerun != nil {
		p.runAgain(w)
	} else {
		p.touch(w)
	}
	p.notify()
}

// runAgain begins the next run of a finished worker.
func (p *podWorkers) runAgain(w *worker) {
	order := w.rerun
	if !p.move(w, onRerun) {
		return
	}
	w.notBefore = order.notBefore
	if w.cancel != nil {
		w.cancel()
	}
	p.lineUp(w, podinfo.FullName(w.pod))
	p.touch(w)
}

// forget takes a worker out; its goroutine returns.
func (p *podWorkers) forget(w *worker) {
	p.move(w, onForget)
	w.tellEnded()
	p.queue.drop(w.uid)
	p.unname(w)
	delete(p.byUID, w.uid)
	p.notify()
}

func (p *podWorkers) notify() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// move applies a trigger by the table and reports whether it is in it.
func (p *podWorkers) move(w *worker, t trigger) bool {
	row := next(w.state, t)
	if row == nil {
		return false
	}
	w.state = row.to
	if row.newRun {
		w.run++
		w.acting, w.kill, w.grace, w.rerun, w.found = nil, nil, nil, nil, nil
		w.held, w.retrying, w.displaced = false, false, false
	}
	return true
}

// touch marks a worker dirty and wakes its goroutine.
func (p *podWorkers) touch(w *worker) {
	w.dirty = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// free reports whether a queued worker may start now: no pod of its full name
// has started and not finished, and none waits before it.
func (p *podWorkers) free(w *worker, now time.Time) bool {
	before := true
	for _, other := range p.byName[w.name] {
		switch {
		case other == w:
			before = false
		case other.holdsName():
			return false
		case before && other.state == stateQueued && other.wanted && !now.Before(other.notBefore):
			return false
		}
	}
	return true
}

func (p *podWorkers) add(uid types.UID, name string) *worker {
	w := &worker{uid: uid, wake: make(chan struct{}, 1), name: name}
	p.byUID[uid] = w
	p.byName[name] = append(p.byName[name], w)
	p.spawn(w)
	return w
}

// lineUp puts a worker at the end of the line for a name.
func (p *podWorkers) lineUp(w *worker, name string) {
	p.unname(w)
	w.name = name
	p.byName[name] = append(p.byName[name], w)
}

func (p *podWorkers) unname(w *worker) {
	line := p.byName[w.name]
	for i, other := range line {
		if other == w {
			line = append(line[:i:i], line[i+1:]...)
			break
		}
	}
	if len(line) == 0 {
		delete(p.byName, w.name)
	} else {
		p.byName[w.name] = line
	}
}

// sameTemplate reports whether one revision can become the other in place. A
// pod from an API server can always, and one without the annotation.
func sameTemplate(a, b *v1.Pod) bool {
	if a == nil || b == nil {
		return true
	}
	if podinfo.IsAPI(b) {
		return true
	}
	ta, tb := a.Annotations[manifest.AnnotationTemplate], b.Annotations[manifest.AnnotationTemplate]
	return ta == "" || tb == "" || ta == tb && podinfo.FullName(a) == podinfo.FullName(b)
}

// sameRevision tells revisions of manifests by their hash; an API server's pod
// has none, or somebody else's.
func sameRevision(a, b *v1.Pod) bool {
	if podinfo.IsAPI(b) {
		return equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
	}
	return a.Annotations[podinfo.AnnotationHash] == b.Annotations[podinfo.AnnotationHash]
}
