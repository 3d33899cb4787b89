package supervisor

import (
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// shownPods are the pods as they were shown last. A pod in which nothing changed
// is shown by the same pointer again, so that who compares needs to look into
// changed ones only: with hundreds of pods and a watch open, each change would
// cost a comparison of them all otherwise.
type podViews struct {
	mu    sync.Mutex
	byKey map[viewKey]cachedView
}

// shownKey names a run of a pod; of one UID there may be two for a moment.
type viewKey struct {
	uid    types.UID
	wanted bool
}

// shownPod is a pod with what it was made of.
type cachedView struct {
	spec     *v1.Pod // as its source has it
	resolved *v1.Pod // with what its classes say
	status   *v1.PodStatus
	ended    time.Time
	grace    int64
	out      *v1.Pod
}

// Pods are the wanted pods and those that are still ending, with their
// statuses, sorted by namespace and name. One that is ending has a deletion
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
		now := cachedView{spec: v.Pod, resolved: resolved, status: s.cfg.Store.Statuses.Current(v.Pod.UID), ended: v.Since, grace: v.Grace}
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

// same says whether two are made of the same. Sources and the store of statuses
// never write to what they gave out: the same pointer is the same content. What
// classes fill in is made anew each time.
func (p *cachedView) same(other *cachedView) bool {
	a, b := &p.resolved.Spec, &other.resolved.Spec
	return p.spec == other.spec && p.status == other.status && p.ended.Equal(other.ended) && p.grace == other.grace &&
		a.PriorityClassName == b.PriorityClassName && equal(a.Priority, b.Priority) && equal(a.PreemptionPolicy, b.PreemptionPolicy) &&
		equality.Semantic.DeepEqual(a.Overhead, b.Overhead) && equality.Semantic.DeepEqual(a.NodeSelector, b.NodeSelector) &&
		equality.Semantic.DeepEqual(a.Tolerations, b.Tolerations)
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
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
