package podworkers

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// Update takes a pod, or a new revision of it, from a source.
func (p *Workers) Update(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[pod.UID]
	if !ok {
		w = p.add(pod.UID, podinfo.FullName(pod))
		w.pod, w.desired = pod, true
		p.move(w, onUpdate)
		p.markDirty(w)
		p.endIfDeleted(w)
		p.clearName(w)
		return
	}
	before, readded := w.pod, !w.desired
	w.pod, w.desired = pod, true
	p.move(w, onUpdate)
	switch {
	case w.state == Queued:
		if name := podinfo.FullName(pod); w.name != name {
			p.enqueueForName(w, name)
		}
	case readded:
		p.restart(w, "its manifest was removed and added again", time.Time{})
	case !sameTemplate(before, pod):
		// Only a uid that is set in the manifest leads here: any other edit makes
		// another UID. The kubelet would apply the image and not report it.
		p.restart(w, "its manifest changed", time.Time{})
	case w.state == Syncing && w.cancel != nil && !sameRevision(before, pod):
		// The latest revision wins over the one in flight: a pull of an image
		// that was mistyped must not hold up the correction.
		w.cancel()
	}
	p.markDirty(w)
	p.endIfDeleted(w)
	p.clearName(w)
}

// Reconcile takes a pod of which only the status in the API differs. What this
// daemon wrote there itself needs no sync.
func (p *Workers) Reconcile(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[pod.UID]
	if !ok {
		return
	}
	before := w.pod
	w.pod, w.desired = pod, true
	if before == nil || podinfo.IsTerminal(pod.Status.Phase) != podinfo.IsTerminal(before.Status.Phase) ||
		!status.SameForeignConditions(&before.Status, &pod.Status) {
		p.markDirty(w)
	}
}

// Remove ends a pod that its source no longer has.
func (p *Workers) Remove(uid types.UID) {
	p.removeFor(uid, func(policy podinfo.SourcePolicy) string { return policy.RemovedText })
}

// Replace ends a pod whose name another revision has taken.
func (p *Workers) Replace(uid types.UID) {
	p.removeFor(uid, func(policy podinfo.SourcePolicy) string { return policy.ReplacedText })
}

func (p *Workers) removeFor(uid types.UID, reason func(podinfo.SourcePolicy) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	if !ok {
		return
	}
	w.desired, w.restart = false, nil
	p.end(w, onKill, KillOrder{Reason: KillRemoved, Message: reason(podinfo.PolicyOf(w.pod)), Grace: w.removalGrace})
}

// SetRemovalGrace sets the grace period, in seconds, of a pod that its source is going to remove;
// nil is the pod's own. It shortens that of one which ends because it was removed. It ends
// nothing itself: a pod that its source keeps goes on.
func (p *Workers) SetRemovalGrace(uid types.UID, grace *int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[uid]
	if !ok {
		return
	}
	w.removalGrace = grace
	if grace != nil && w.state == Terminating && !w.desired {
		p.end(w, onKill, KillOrder{Grace: grace})
	}
}

// Orphan ends what was found of a pod that no source wants, or of one that has
// finished and still runs. pod is what is known of it, grace its grace period in
// seconds.
func (p *Workers) Orphan(pod *v1.Pod, grace int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byUID[pod.UID]
	if !ok {
		w = p.add(pod.UID, podinfo.FullName(pod))
	}
	if !p.move(w, onOrphan) {
		return
	}
	grace = max(grace, 1)
	w.found, w.grace = pod, &grace
	w.kill = &KillOrder{Reason: KillOrphan, Message: "no source holds its manifest"}
	w.endedAt = time.Now()
	p.markDirty(w)
}

// endIfDeleted ends a pod that an API server is deleting. It stays desired until
// its source removes it.
func (p *Workers) endIfDeleted(w *worker) {
	if w.pod.DeletionTimestamp == nil {
		return
	}
	w.restart = nil
	p.end(w, onKill, KillOrder{Reason: KillDeleted, Message: "it was deleted", Grace: w.pod.DeletionGracePeriodSeconds})
}

// sameTemplate reports whether one revision can become the other in place.
func sameTemplate(a, b *v1.Pod) bool {
	if a == nil || b == nil || podinfo.PolicyOf(b).UpdatesInPlace {
		return true
	}
	ta, tb := a.Annotations[podinfo.AnnotationTemplate], b.Annotations[podinfo.AnnotationTemplate]
	return ta == "" || tb == "" || ta == tb && podinfo.FullName(a) == podinfo.FullName(b)
}

// sameRevision reports whether two pods of a UID are the same revision. Static
// pods are compared by their hash; an API pod has none, or a foreign one.
func sameRevision(a, b *v1.Pod) bool {
	if podinfo.PolicyOf(b).UpdatesInPlace {
		return equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
	}
	return a.Annotations[podinfo.AnnotationHash] == b.Annotations[podinfo.AnnotationHash]
}
