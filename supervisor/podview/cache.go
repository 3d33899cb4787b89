package podview

import (
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// Cache keeps the pods as Pods returned them last. The zero value is empty. An unchanged pod is returned
// as the same pointer, so that a caller that compares needs to compare only
// changed pods: with hundreds of pods and an open watch, each change would otherwise
// cost a comparison of all pods.
type Cache struct {
	mu    sync.Mutex
	byKey map[viewKey]cachedView
}

// viewKey names a run of a pod; one UID can have two for a moment.
type viewKey struct {
	uid     types.UID
	desired bool
}

// cachedView is a returned pod with the values that it was made from.
type cachedView struct {
	resolved *v1.Pod // with what its classes say
	status   *v1.PodStatus
	ended    time.Time
	grace    int64
	out      *v1.Pod
}

// Pods returns the pods of views with their statuses, sorted by namespace and name. A
// terminating pod has a deletion timestamp if no source wants it. resolve returns a pod
// with what its classes say, current its status, nil without one.
func (c *Cache) Pods(views []podworkers.View, resolve func(*v1.Pod) *v1.Pod,
	current func(types.UID) *v1.PodStatus) []*v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[viewKey]cachedView, len(views))
	pods := make([]*v1.Pod, 0, len(views))
	for _, v := range views {
		key := viewKey{v.Pod.UID, v.Desired}
		now := cachedView{resolved: resolve(v.Pod), status: current(v.Pod.UID), ended: v.Since, grace: v.Grace}
		if last, ok := c.byKey[key]; ok && last.same(&now) {
			now = last
		} else {
			now.out = now.make(v.Desired)
		}
		next[key] = now
		pods = append(pods, now.out)
	}
	c.byKey = next
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
func (p *cachedView) make(desired bool) *v1.Pod {
	pod := *p.resolved
	if p.status != nil {
		pod.Status = *p.status
	}
	if !desired && pod.DeletionTimestamp == nil {
		since, grace := metav1.NewTime(p.ended), p.grace
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &since, &grace
	}
	return &pod
}
