package supervisor

import (
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// podViews caches the pods as Pods returned them last. An unchanged pod is returned
// as the same pointer, so that a caller that compares needs to compare only
// changed pods: with hundreds of pods and an open watch, each change would otherwise
// cost a comparison of all pods.
type podViews struct {
	mu    sync.Mutex
	byKey map[viewKey]cachedView
}

// viewKey names a run of a pod; one UID can have two for a moment.
type viewKey struct {
	uid    types.UID
	wanted bool
}

// cachedView is a returned pod with the values that it was made from.
type cachedView struct {
	resolved *v1.Pod // with what its classes say
	status   *v1.PodStatus
	ended    time.Time
	grace    int64
	out      *v1.Pod
}

// Pods returns the wanted pods and those that are still terminating, with their
// statuses, sorted by namespace and name. A terminating pod has a deletion
// timestamp if no source wants it. They are shared and must not be written to.
func (s *Supervisor) Pods() []*v1.Pod {
	views := s.workers.Views()
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	next := make(map[viewKey]cachedView, len(views))
	pods := make([]*v1.Pod, 0, len(views))
	for _, v := range views {
		resolved := s.podSyncer.inputs.Resolve(v.Pod).Pod
		key := viewKey{v.Pod.UID, v.Wanted}
		now := cachedView{resolved: resolved, status: s.cfg.Store.Statuses.Current(v.Pod.UID), ended: v.Since, grace: v.Grace}
		if last, ok := s.views.byKey[key]; ok && last.same(&now) {
			now = last
		} else {
			now.out = now.make(v.Wanted)
		}
		next[key] = now
		pods = append(pods, now.out)
	}
	s.views.byKey = next
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		if c := strings.Compare(podinfo.FullName(a), podinfo.FullName(b)); c != 0 {
			return c
		}
		return strings.Compare(string(a.UID), string(b.UID))
	})
	return pods
}

// same reports whether two views are made from the same. Sources, the resolver and the
// store of statuses never modify what they returned: the same pointer is the same
// content.
func (p *cachedView) same(other *cachedView) bool {
	return p.resolved == other.resolved && p.status == other.status && p.ended.Equal(other.ended) && p.grace == other.grace
}

// make puts the pod together. All but its own fields are shared.
func (p *cachedView) make(wanted bool) *v1.Pod {
	pod := *p.resolved
	if p.status != nil {
		pod.Status = *p.status
	}
	if !wanted && pod.DeletionTimestamp == nil {
		since, grace := metav1.NewTime(p.ended), p.grace
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &since, &grace
	}
	return &pod
}

// firstStatusTimeout limits how long the first reader of SyncedPods waits.
const firstStatusTimeout = 3 * time.Second

// SyncedPods is Pods for clients of the API. The first call after the daemon's
// start waits until each pod has a status of this daemon, or for 3 seconds: a
// client that asks right after a restart must not see running pods as Pending.
func (s *Supervisor) SyncedPods() []*v1.Pod {
	s.firstStatus.await(s.Pods, s.cfg.Store.Statuses.Subscribe)
	return s.Pods()
}

// firstStatus makes callers wait once for the first status of all pods.
type firstStatus struct{ once sync.Once }

// await returns when all pods have a status, or after firstStatusTimeout. Later
// calls return at once. subscribe notifies after a status changed.
func (f *firstStatus) await(pods func() []*v1.Pod, subscribe func() (<-chan struct{}, func())) {
	f.once.Do(func() {
		changed, unsubscribe := subscribe()
		defer unsubscribe()
		timeout := time.After(firstStatusTimeout)
		for !allHaveStatus(pods()) {
			select {
			case <-changed:
			case <-timeout:
				return
			}
		}
	})
}

func allHaveStatus(pods []*v1.Pod) bool {
	for _, pod := range pods {
		if len(pod.Status.Conditions) == 0 {
			return false
		}
	}
	return true
}
