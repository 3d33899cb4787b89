package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// atOnce is how many requests about mirrors are under way at most.
	atOnce = 8
	// batch is how long changes are gathered before they are looked at: a pod
	// that starts changes its status several times within it.
	batch = 50 * time.Millisecond
	// lastFailureRetry is how rarely a mirror is tried again at last that the API
	// server fails to write.
	lastFailureRetry = 30 * time.Second
	// lastRefusalRetry is how rarely a mirror is tried again that the API server
	// refuses, say for want of its namespace.
	lastRefusalRetry = 5 * time.Minute
)

// mirrors keeps the mirror pods. One goroutine compares and starts requests, at
// most one a mirror at a time.
type mirrors struct {
	*Adapter
	results chan result
	busy    map[string]bool
	trouble map[string]*trouble
	// agreed is what was compared last and found to agree, so that a look costs
	// little where nothing changed.
	agreed map[string]agreement
}

type agreement struct {
	static, mirror types.UID
	version        string
	status         *v1.PodStatus
}

// trouble is a mirror that could not be brought up to date.
type trouble struct {
	failures int
	until    time.Time
	told     string
}

type result struct {
	key string
	pod *v1.Pod
	err error
}

func newMirrors(a *Adapter) *mirrors {
	return &mirrors{
		Adapter: a, results: make(chan result, atOnce),
		busy: map[string]bool{}, trouble: map[string]*trouble{}, agreed: map[string]agreement{},
	}
}

func (m *mirrors) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		next := m.look(ctx, &wg)
		var due <-chan time.Time
		if next > 0 {
			due = time.After(next)
		}
		select {
		case <-m.mirrorsChanged:
			if !sleep(ctx, batch) {
				return
			}
		case r := <-m.results:
			m.finished(r)
		case <-due:
		case <-ctx.Done():
			return
		}
	}
}

// look starts the next request for each mirror that needs one, and returns when
// the first that waits may be tried again; 0 is never.
func (m *mirrors) look(ctx context.Context, wg *sync.WaitGroup) (next time.Duration) {
	registered := m.node()
	known, synced := m.pods.Objects()
	if registered == nil || !synced || len(m.busy) >= atOnce {
		return 0 // The watches wake, or the next result.
	}
	if wait := m.link.closed(); wait > 0 {
		return wait
	}
	now := time.Now()
	// Asked before the pods are read: what is not among them then is gone.
	orphans := m.orphans(known)
	static := m.static()
	for name := range union(static, known) {
		pod, mirror := static[name], known[name]
		if mirror != nil && mirror.Annotations[annotationMirror] == "" {
			// A pod of the cluster, not ours to touch.
			if pod == nil {
				continue
			}
			m.fail(name, pod, fmt.Errorf("%s is a pod of the cluster already: rename one of the two", name), lastRefusalRetry)
			continue
		}
		if m.busy[name] || pod == nil && !orphans[name] || m.hasAgreed(name, pod, mirror) {
			continue
		}
		if t := m.trouble[name]; t != nil && now.Before(t.until) {
			if wait := t.until.Sub(now); next == 0 || wait < next {
				next = wait
			}
			continue
		}
		s, err := nextStep(pod, mirror, registered)
		switch {
		case err != nil:
			m.fail(name, pod, err, lastRefusalRetry)
		case s.verb == nothing:
			m.agree(name, pod, mirror)
		default:
			m.busy[name] = true
			wg.Go(func() { m.results <- m.do(ctx, name, mirror, s) })
			if len(m.busy) >= atOnce {
				return next
			}
		}
	}
	return next
}

// orphans are the mirrors that go if they have no pod here.
func (m *mirrors) orphans(known map[string]*v1.Pod) map[string]bool {
	names := map[string]bool{}
	for name, mirror := range known {
		names[name] = m.cfg.Delivered(mirror.Annotations[annotationSource])
	}
	return names
}

// static are the pods that are to have a mirror, by name.
func (m *mirrors) static() map[string]*v1.Pod {
	pods := map[string]*v1.Pod{}
	for _, pod := range m.cfg.Static() {
		if other := pods[key(pod)]; other == nil || other.DeletionTimestamp != nil {
			pods[key(pod)] = pod
		}
	}
	return pods
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

func (m *mirrors) hasAgreed(name string, pod, mirror *v1.Pod) bool {
	a, ok := m.agreed[name]
	return ok && pod != nil && mirror != nil && a.static == pod.UID && a.mirror == mirror.UID && a.version == mirror.ResourceVersion &&
		equality.Semantic.DeepEqual(a.status, &pod.Status)
}

func (m *mirrors) agree(name string, pod, mirror *v1.Pod) {
	delete(m.trouble, name)
	delete(m.agreed, name)
	if pod != nil && mirror != nil {
		m.agreed[name] = agreement{pod.UID, mirror.UID, mirror.ResourceVersion, &pod.Status}
	}
}

// do makes one request.
func (m *mirrors) do(ctx context.Context, name string, mirror *v1.Pod, s step) result {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r := result{key: name, pod: &v1.Pod{}}
	pods := m.client.core
	switch s.verb {
	case create:
		r.err = pods.Post().Namespace(s.pod.Namespace).Resource("pods").Body(s.pod).Do(ctx).Into(r.pod)
	case remove:
		now := int64(0)
		r.pod = nil
		r.err = pods.Delete().Namespace(mirror.Namespace).Resource("pods").Name(mirror.Name).
			Body(&metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &s.uid}}).Do(ctx).Error()
		if r.err == nil || apierrors.IsNotFound(r.err) {
			r.err = nil
			m.pods.Removed(s.uid)
		}
	case patch:
		r.err = pods.Patch(types.MergePatchType).Namespace(mirror.Namespace).Resource("pods").Name(mirror.Name).
			SubResource("status").Body(s.body).Do(ctx).Into(r.pod)
		if apierrors.IsInvalid(r.err) {
			// What may not change in place is shown by a new mirror.
			return m.do(ctx, name, mirror, step{verb: remove, uid: s.uid})
		}
	}
	return r
}

// finished takes the end of a request.
func (m *mirrors) finished(r result) {
	delete(m.busy, r.key)
	switch {
	case r.err == nil:
		delete(m.trouble, r.key)
		if r.pod != nil {
			m.pods.Wrote(r.pod)
		}
	case apierrors.IsAlreadyExists(r.err), apierrors.IsConflict(r.err), apierrors.IsNotFound(r.err) && m.namespaceThere(r):
		// The watch is late: it shows what is there.
		m.fail(r.key, nil, nil, time.Second)
	case !answered(r.err):
		// The link keeps the next one back.
		m.fail(r.key, nil, nil, time.Second)
	default:
		limit := lastFailureRetry
		if apierrors.IsForbidden(r.err) || apierrors.IsInvalid(r.err) || apierrors.IsNotFound(r.err) {
			limit = lastRefusalRetry
		}
		m.fail(r.key, m.static()[r.key], r.err, limit)
	}
	wake(m.mirrorsChanged)
}

// namespaceThere tells a request that failed since its pod is gone from one
// whose namespace is.
func (m *mirrors) namespaceThere(r result) bool {
	var status apierrors.APIStatus
	return errors.As(r.err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "pods"
}

// fail spaces the next attempt, and tells of the fault once.
func (m *mirrors) fail(name string, pod *v1.Pod, err error, limit time.Duration) {
	t := m.trouble[name]
	if t == nil {
		t = &trouble{}
		m.trouble[name] = t
	}
	t.failures++
	d := firstRetry
	for range t.failures {
		if d *= 2; d >= limit {
			d = limit
			break
		}
	}
	t.until = time.Now().Add(d)
	if err == nil || pod == nil || err.Error() == t.told {
		return
	}
	t.told = err.Error()
	m.cfg.Log.Warn("pod is not shown in the cluster, it runs all the same", "pod", name, "error", err)
	m.cfg.Events.Event(pod, v1.EventTypeWarning, "FailedMirror", "the pod runs, but the cluster does not show it: "+err.Error())
}
