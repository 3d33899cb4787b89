package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/retry"
)

const (
	// maxConcurrentWrites limits the concurrent requests about pods.
	maxConcurrentWrites = 8
	// batchInterval is how long changes are collected before they are compared: a
	// starting pod changes its status several times within it.
	batchInterval = 50 * time.Millisecond
	// maxFailureDelay is the longest delay between attempts of a failed write.
	maxFailureDelay = 30 * time.Second
	// maxRefusalDelay is the longest delay between attempts of a refused write, for
	// example of a mirror without its namespace.
	maxRefusalDelay = 5 * time.Minute
)

// podWriter writes the pods to the API: mirrors of static pods, and the statuses
// of the cluster's pods. One goroutine compares them and starts requests, at most
// one per pod at a time.
type podWriter struct {
	*Adapter
	results     chan result
	busy        map[string]bool
	writeErrors map[string]*writeError
	// inSync has the pods that were last compared and found equal, so that a
	// comparison is cheap where nothing changed.
	inSync map[string]syncedVersion
	// sentPatches are the last patches of the pods, by name, with the version that the API
	// server responded.
	sentPatches map[string]sentPatch
	// nameConflicts are the static pods, by name, that were reported for having no
	// mirror because the cluster has a pod of that name.
	nameConflicts map[string]types.UID
	// refused is what the API server did not accept of the statuses of the cluster's pods, by name.
	refused map[string]*refusedStatus
}

type syncedVersion struct {
	local, shown types.UID
	version      string
	status       *v1.PodStatus
}

// sentPatch is a patch that was sent. An API server that does not keep a part of it, such
// as a field of a later release, serves the same patch with the same version, and is not
// sent it again.
type sentPatch struct {
	version string
	body    []byte
}

// writeError is a pod in the API that could not be updated.
type writeError struct {
	failures int
	until    time.Time
	reported string
}

// result is the outcome of a request about the pod of that name. local is the
// local pod, nil if it is gone.
type result struct {
	key        string
	local, pod *v1.Pod
	// shown is the pod in the API before the request.
	shown *v1.Pod
	// patch is the body of a patch, nil for other requests.
	patch []byte
	err   error
}

func newPodWriter(a *Adapter) *podWriter {
	return &podWriter{
		Adapter: a, results: make(chan result, maxConcurrentWrites),
		busy: map[string]bool{}, writeErrors: map[string]*writeError{}, inSync: map[string]syncedVersion{},
		nameConflicts: map[string]types.UID{},
		sentPatches:   map[string]sentPatch{}, refused: map[string]*refusedStatus{},
	}
}

func (w *podWriter) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	var gathered, due <-chan time.Time
	reconcile := func() {
		gathered, due = nil, nil
		if next := w.reconcile(ctx, &wg); next > 0 {
			due = time.After(next)
		}
	}
	reconcile()
	for {
		select {
		case <-w.podsChanged.C():
			if gathered == nil {
				gathered = time.After(batchInterval)
			}
		case <-gathered:
			reconcile()
		case r := <-w.results:
			// Each comparison covers all pods: one serves several results.
			if w.finished(r); len(w.busy) <= maxConcurrentWrites/2 {
				reconcile()
			}
		case <-due:
			reconcile()
		case <-ctx.Done():
			return
		}
	}
}

// reconcile starts the next request for each pod that needs one, and returns when
// the first retry is due; 0 is never.
func (w *podWriter) reconcile(ctx context.Context, wg *sync.WaitGroup) (next time.Duration) {
	registered := w.node()
	known, synced := w.pods.Objects()
	if registered == nil || !synced || len(w.busy) >= maxConcurrentWrites {
		return 0 // a watch or the next result notifies
	}
	if wait := w.connection.retryAfter(); wait > 0 {
		return wait
	}
	now := time.Now()
	// Read before the pods: a mirror without a pod among them is an orphan.
	orphans := w.orphans(known)
	here := w.localPods()
	all := union(here.static, known)
	w.forget(all)
	for name := range all {
		local, shown := here.static[name], known[name]
		if shown != nil && !isMirror(shown) {
			w.reportNameConflict(name, local)
			if local = here.bound[shown.UID]; local == nil && w.budget.refusal(shown.UID) == "" {
				continue
			}
		} else if local == nil && !orphans[name] {
			continue
		}
		if wait := w.refusalDue(name, now); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
		if w.busy[name] || w.isInSync(name, local, shown) {
			continue
		}
		if t := w.writeErrors[name]; t != nil && now.Before(t.until) {
			if wait := t.until.Sub(now); next == 0 || wait < next {
				next = wait
			}
			continue
		}
		s, err := w.nextStep(name, local, shown, registered)
		switch {
		case err != nil:
			w.scheduleRetry(name, local, err, maxRefusalDelay)
		case s.verb == nothing:
			w.markInSync(name, local, shown)
		default:
			w.busy[name] = true
			wg.Go(func() {
				r := w.execute(ctx, shown, s)
				r.key, r.local, r.shown = name, local, shown
				w.results <- r
			})
			if len(w.busy) >= maxConcurrentWrites {
				return next
			}
		}
	}
	return next
}

// forget drops the state of pods that exist neither here nor in the API.
func (w *podWriter) forget(all map[string]bool) {
	maps.DeleteFunc(w.inSync, func(name string, _ syncedVersion) bool { return !all[name] })
	maps.DeleteFunc(w.writeErrors, func(name string, _ *writeError) bool { return !all[name] })
	maps.DeleteFunc(w.sentPatches, func(name string, _ sentPatch) bool { return !all[name] })
	maps.DeleteFunc(w.refused, func(name string, _ *refusedStatus) bool { return !all[name] })
	maps.DeleteFunc(w.nameConflicts, func(name string, _ types.UID) bool { return !all[name] })
}

// reportNameConflict reports once that a static pod, nil if there is none, has no
// mirror because the cluster has a pod of its name. The status of that pod is
// still sent, and it is removed when it is deleted.
func (w *podWriter) reportNameConflict(name string, static *v1.Pod) {
	switch {
	case static == nil:
		delete(w.nameConflicts, name)
	case w.nameConflicts[name] != static.UID:
		w.nameConflicts[name] = static.UID
		w.report(name, static, fmt.Errorf("the cluster already has a pod %s; rename one of them", name))
	}
}

// nextStep returns the next request about the pod of that name.
func (w *podWriter) nextStep(name string, local, shown *v1.Pod, node *v1.Node) (step, error) {
	bound := shown != nil && !isMirror(shown)
	ended := bound && w.cfg.Pods.Ended(shown.UID)
	next := func() (step, error) {
		if bound {
			if why := w.budget.refusal(shown.UID); why != "" {
				return refusedStep(shown, why)
			}
			return boundStep(local, shown, ended, w.refusedOf(name, shown.UID))
		}
		return mirrorStep(local, shown, node)
	}
	s, err := next()
	for err == nil && s.verb != patch && bound && w.endTrial(name, shown.UID) {
		s, err = next()
	}
	sent := w.sentPatches[name]
	if err != nil || s.verb != patch || sent.version != shown.ResourceVersion || !bytes.Equal(sent.body, s.body) {
		return s, err
	}
	if bound {
		return removeStep(shown, ended), nil
	}
	return step{}, nil
}

// orphans returns the mirrors that are deleted if they have no pod here.
func (w *podWriter) orphans(known map[string]*v1.Pod) map[string]bool {
	names := map[string]bool{}
	for name, shown := range known {
		names[name] = isMirror(shown) && w.cfg.Pods.Delivered(shown.Annotations[podinfo.AnnotationSource])
	}
	return names
}

// localPods has the local pods: those that need a mirror by name, and the
// cluster's by UID. Of two revisions of a static pod the one that still terminates has
// the mirror; the desired one gets its own when it may start, as at the kubelet.
type localPods struct {
	static map[string]*v1.Pod
	bound  map[types.UID]*v1.Pod
}

func (w *podWriter) localPods() localPods {
	here := localPods{map[string]*v1.Pod{}, map[types.UID]*v1.Pod{}}
	shows := w.drain.showsMirrors()
	for _, pod := range w.cfg.Pods.List() {
		if isBound(pod) {
			here.bound[pod.UID] = pod
		} else if other := here.static[key(pod)]; shows && (other == nil || other.DeletionTimestamp == nil) {
			here.static[key(pod)] = pod
		}
	}
	return here
}

func union(a, b map[string]*v1.Pod) map[string]bool {
	all := map[string]bool{}
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return all
}

// isInSync returns false for a pod that is being deleted: what the deletion waits
// for is not in its status.
func (w *podWriter) isInSync(name string, local, shown *v1.Pod) bool {
	a, ok := w.inSync[name]
	return ok && local != nil && shown != nil && shown.DeletionTimestamp == nil && a.local == local.UID &&
		a.shown == shown.UID && a.version == shown.ResourceVersion &&
		equality.Semantic.DeepEqual(a.status, &local.Status)
}

func (w *podWriter) markInSync(name string, local, shown *v1.Pod) {
	delete(w.writeErrors, name)
	delete(w.inSync, name)
	w.forgetRefusal(name)
	if local != nil && shown != nil {
		w.inSync[name] = syncedVersion{local.UID, shown.UID, shown.ResourceVersion, &local.Status}
	}
}

// execute sends one request.
func (w *podWriter) execute(ctx context.Context, shown *v1.Pod, s step) result {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r := result{pod: &v1.Pod{}, patch: s.body}
	pods := w.client.core
	switch s.verb {
	case create:
		r.err = pods.Post().Namespace(s.pod.Namespace).Resource("pods").Body(s.pod).Do(ctx).Into(r.pod)
	case remove:
		r.pod, r.err = w.remove(ctx, shown, s.uid)
	case patch:
		r.err = pods.Patch(types.StrategicMergePatchType).Namespace(shown.Namespace).Resource("pods").Name(shown.Name).
			SubResource("status").Body(s.body).Do(ctx).Into(r.pod)
		if apierrors.IsInvalid(r.err) && isMirror(shown) {
			// A field that cannot change in place needs a new mirror.
			return w.execute(ctx, shown, step{verb: remove, uid: s.uid})
		}
	}
	return r
}

// remove deletes a pod at once. It returns the object if a finalizer keeps it.
func (w *podWriter) remove(ctx context.Context, shown *v1.Pod, uid types.UID) (*v1.Pod, error) {
	now := int64(0)
	response, err := w.client.core.Delete().Namespace(shown.Namespace).Resource("pods").Name(shown.Name).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid}}).Do(ctx).Get()
	if err != nil {
		// NotFound does not prove that the pod is gone: an API server that has just
		// started searches a cache that is not filled yet. The watch shows the
		// deletion.
		return nil, err
	}
	if kept, ok := response.(*v1.Pod); ok && kept.UID == uid && len(kept.Finalizers) > 0 {
		return kept, nil
	}
	w.pods.Removed(uid)
	return nil, nil
}

// finished handles the result of a request.
func (w *podWriter) finished(r result) {
	delete(w.busy, r.key)
	switch {
	case r.err == nil:
		delete(w.writeErrors, r.key)
		if r.pod != nil {
			w.pods.Stored(r.pod)
		}
		if r.pod != nil && r.patch != nil {
			w.reportRefusal(r.key, r.pod)
			w.endTrial(r.key, r.pod.UID)
			w.sentPatches[r.key] = sentPatch{r.pod.ResourceVersion, r.patch}
		}
	case apierrors.IsAlreadyExists(r.err), apierrors.IsConflict(r.err), apierrors.IsNotFound(r.err) &&
		w.namespaceExists(r):
		// The watch is late: it will show the present object.
		w.scheduleRetry(r.key, nil, nil, time.Second)
	case w.learnRefusal(&r):
		// The next comparison sends the rest.
	case !isResponse(r.err):
		// The connection delays the next request.
		w.scheduleRetry(r.key, nil, nil, time.Second)
	default:
		limit := maxFailureDelay
		if apierrors.IsForbidden(r.err) || apierrors.IsInvalid(r.err) || apierrors.IsNotFound(r.err) {
			limit = maxRefusalDelay
		}
		w.scheduleRetry(r.key, r.local, r.err, limit)
	}
}

// namespaceExists distinguishes a missing pod from a missing namespace.
// NodeRestriction names the kind in the singular.
func (w *podWriter) namespaceExists(r result) bool {
	var status apierrors.APIStatus
	if !errors.As(r.err, &status) || status.Status().Details == nil {
		return false
	}
	kind := status.Status().Details.Kind
	return kind == "pods" || kind == "pod"
}

// failures returns how often the requests about a pod have failed in a row.
func (w *podWriter) failures(name string) int {
	if t := w.writeErrors[name]; t != nil {
		return t.failures
	}
	return 0
}

// scheduleRetry schedules the next attempt, and reports the error once.
func (w *podWriter) scheduleRetry(name string, local *v1.Pod, err error, limit time.Duration) {
	t := w.writeErrors[name]
	if t == nil {
		t = &writeError{}
		w.writeErrors[name] = t
	}
	t.failures++
	t.until = time.Now().Add(retry.Delay(t.failures+1, minRetryDelay, limit))
	if err == nil || local == nil || err.Error() == t.reported {
		return
	}
	t.reported = err.Error()
	w.report(name, local, err)
}

// reportRefusal reports that a pod was rejected, if it was.
func (w *podWriter) reportRefusal(name string, pod *v1.Pod) {
	if why := w.budget.refusal(pod.UID); why != "" {
		w.cfg.Log.Warn("Rejected pod", "pod", name, "reason", reasonPodsTooLarge, "err", why)
		w.cfg.Events.Event(identityOf(pod), v1.EventTypeWarning, reasonPodsTooLarge, why)
	}
}

// report reports why a local pod is not up to date in the cluster.
func (w *podWriter) report(name string, local *v1.Pod, err error) {
	w.cfg.Log.Warn("Failed to update pod in the cluster, retrying; the pod keeps running", "pod", name, "err", err)
	if isBound(local) {
		return
	}
	w.cfg.Events.Event(local, v1.EventTypeWarning, "FailedMirror",
		"the pod runs, but its mirror pod is not up to date: "+err.Error())
}
