package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// Deliverer takes the full set of one source. Implemented by
// manifest.PodConfig.
type Deliverer interface {
	Deliver(set manifest.Set)
}

// boundPods brings the pods that the cluster binds to this node to those of
// files and URLs, as a source like theirs: always the full set, and none before
// the API server has told all. An API server that is away tells nothing, and so
// nothing changes.
type boundPods struct {
	*Adapter
	// name is what the source is called where sources are listed.
	name    string
	changed chan struct{}
	// told are the versions of the pods that were delivered last; nil if none
	// were.
	delivered map[types.UID]string
}

// deliverPeriod is the least time between two sets.
const deliverInterval = 50 * time.Millisecond

func (b *boundPods) run(ctx context.Context) {
	for {
		b.deliver()
		select {
		case <-b.changed:
		case <-ctx.Done():
			return
		}
		// What is first told is not waited with; what follows it is gathered.
		b.deliver()
		if !sleep(ctx, deliverInterval) {
			return
		}
	}
}

// deliver delivers the pods if they are not those of before. The first time it
// waits for the node, by the kubelet's rule.
func (b *boundPods) deliver() {
	known, synced := b.pods.Objects()
	if !synced || b.delivered == nil && b.node() == nil {
		return
	}
	versions := map[types.UID]string{}
	var pods []*v1.Pod
	for _, pod := range known {
		if !isMirror(pod) {
			versions[pod.UID] = pod.ResourceVersion
			pods = append(pods, pod)
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

// isMirror tells the mirrors of static pods from the cluster's own pods.
func isMirror(pod *v1.Pod) bool { return pod.Annotations[podinfo.AnnotationMirror] != "" }

// isBound tells a pod here that the cluster has bound to this node.
func isBound(pod *v1.Pod) bool {
	return pod.Annotations[podinfo.AnnotationSource] == string(manifest.SourceAPI)
}
