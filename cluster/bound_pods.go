package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/manifest"
)

// Deliverer receives the full set of pods of one source. Implemented by
// manifest.PodConfig.
type Deliverer interface {
	Deliver(set manifest.Set)
}

// boundPods delivers the pods that the cluster binds to this node as a source like
// files and URLs: always the full set, and nothing before the first list. An
// unreachable API server changes nothing.
type boundPods struct {
	*Adapter
	// name is the name of the source where sources are listed.
	name    string
	changed wakeup.Signal
	// delivered are the versions of the last set; nil before the first.
	delivered map[types.UID]string
}

// deliverInterval is the minimum time between two sets.
const deliverInterval = 50 * time.Millisecond

func (b *boundPods) run(ctx context.Context) {
	for {
		b.deliver()
		select {
		case <-b.changed.C():
		case <-ctx.Done():
			return
		}
		// The first change is delivered at once; the changes that follow are
		// collected.
		b.deliver()
		if !retry.Sleep(ctx, deliverInterval) {
			return
		}
	}
}

// deliver delivers the pods if they changed. The first time it waits for the Node
// object, by the kubelet's rule.
func (b *boundPods) deliver() {
	known, synced := b.acceptedPods()
	if !synced || b.delivered == nil && b.node() == nil {
		return
	}
	versions := map[types.UID]string{}
	var pods []*v1.Pod
	for _, pod := range known {
		if !isMirror(pod) {
			versions[pod.UID] = pod.ResourceVersion
			pods = append(pods, pod)
			b.reportGrowth(pod)
		}
	}
	if b.delivered != nil && sameVersions(b.delivered, versions) {
		return
	}
	b.delivered = versions
	slices.SortFunc(pods, func(x, y *v1.Pod) int { return cmp.Compare(key(x), key(y)) })
	unit := manifest.Unit{Name: b.name}
	for _, pod := range pods {
		unit.Documents = append(unit.Documents, manifest.Document{Pod: pod})
	}
	b.cfg.Pods.Bound.Deliver(manifest.Set{Source: manifest.SourceAPI, Units: []manifest.Unit{unit}, Time: time.Now()})
}

// reportGrowth reports that a change of a pod has no effect, if it has none.
func (b *boundPods) reportGrowth(pod *v1.Pod) {
	if why := b.budget.takeGrowth(pod.UID); why != "" {
		b.cfg.Log.Warn("Ignored change of pod", "pod", key(pod), "reason", reasonPodsTooLarge, "err", why)
		b.cfg.Events.Event(pod, v1.EventTypeWarning, reasonPodsTooLarge, why)
	}
}

func sameVersions(a, b map[types.UID]string) bool {
	if len(a) != len(b) {
		return false
	}
	for uid, version := range a {
		if other, ok := b[uid]; !ok || other != version {
			return false
		}
	}
	return true
}

// isMirror reports whether a pod is the mirror of a static pod.
func isMirror(pod *v1.Pod) bool { return pod.Annotations[podinfo.AnnotationMirror] != "" }

// isBound reports whether the cluster bound a local pod to this node.
func isBound(pod *v1.Pod) bool {
	return pod.Annotations[podinfo.AnnotationSource] == string(manifest.SourceAPI)
}
