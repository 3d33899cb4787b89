package manifest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// merge computes what is in effect now and queues the changes. What any source
// releases comes first, so that it is free when another source takes it.
func (c *PodConfig) merge(delivered Source, first bool) {
	c.resolveClaims()
	c.mergeObjects()
	order := []Source{delivered}
	for _, source := range c.sources {
		if source != delivered {
			order = append(order, source)
		}
	}
	moved := c.movedPods()
	changes := make([]podChanges, len(order))
	for i, source := range order {
		changes[i] = c.diff(source, moved)
	}
	for i, source := range order {
		c.enqueueRemove(source, changes[i].remove)
	}
	for i, source := range order {
		c.enqueueRest(source, changes[i], first && source == delivered)
	}
	for _, source := range c.sources {
		state := c.states[source]
		if state.reported && isStatic(source) {
			c.checkpoint.remove(source, state.offer.Removed)
			c.checkpoint.accept(source, state.accepted, !state.offer.Restored)
			state.accepted = nil
		}
	}
}

// isStatic reports whether the pods of a source come from manifests. The API
// server keeps its own state and its own names.
func isStatic(source Source) bool { return source != SourceAPI }

// resolveClaims sets the units in effect of every source.
func (c *PodConfig) resolveClaims() {
	before := c.checkpoint.claims()
	settler := claimResolver{previous: c.withoutRemoved(before), pending: map[Source]bool{}}
	var offers []*unitOffer
	for _, source := range c.claimOrder() {
		state := c.states[source]
		if !isStatic(source) {
			state.units = state.offer.Units
			continue
		}
		settler.pending[source] = !state.delivered
		for i := range state.offer.Units {
			offer := &unitOffer{source: source, unit: &state.offer.Units[i]}
			offer.accepted, _ = c.checkpoint.accepted(source, offer.unit.Name)
			offers = append(offers, offer)
		}
		state.units, state.accepted = nil, nil
	}
	granted := settler.resolve(offers)
	for _, offer := range offers {
		state := c.states[offer.source]
		state.units = append(state.units, offer.inEffect(granted))
		state.accepted = append(state.accepted, offer.forCheckpoint())
	}
	c.saveClaims(before, granted.claims)
}

// withoutRemoved returns the claims without those of removed units, whose names
// are free even if their source has not delivered.
func (c *PodConfig) withoutRemoved(claims map[string]claim) map[string]claim {
	kept := maps.Clone(claims)
	maps.DeleteFunc(kept, func(_ string, owner claim) bool {
		state := c.states[owner.Source]
		return state != nil && slices.Contains(state.offer.Removed, owner.Unit)
	})
	return kept
}

// claimOrder returns the sources in the order of precedence if no owner is
// known: file before http before oci.
func (c *PodConfig) claimOrder() []Source {
	sources := slices.Clone(c.sources)
	slices.SortFunc(sources, func(a, b Source) int { return cmp.Compare(a, b) })
	return sources
}

// forCheckpoint returns the unit as the checkpoint stores it, with all of its
// pods: only the claims say which of them own their names.
func (o *unitOffer) forCheckpoint() Unit {
	if o.rejections != nil {
		return o.accepted
	}
	return *o.unit
}

// inEffect returns the unit with the documents that own their names.
func (o *unitOffer) inEffect(granted claimGrants) Unit {
	unit := *o.unit
	if o.rejections != nil {
		unit.Digest, unit.Revision, unit.Objects = o.accepted.Digest, o.accepted.Revision, o.accepted.Objects
		unit.Faults = slices.Concat(unit.Faults, o.rejections)
	}
	documents := o.content()
	owned := make([]Document, 0, len(documents))
	for i, document := range documents {
		if granted.pods[claimedPod{o, i}] {
			owned = append(owned, document)
		}
	}
	unit.Documents = owned
	return unit
}

// saveClaims records when each pod was first seen, and stores the claims if
// they changed.
func (c *PodConfig) saveClaims(before, claims map[string]claim) {
	now := c.now().UTC()
	for name, owner := range claims {
		owner.Seen = now
		if known, ok := before[name]; ok && known.UID == owner.UID {
			owner.Seen = known.Seen
		}
		claims[name] = owner
	}
	if !maps.Equal(before, claims) {
		c.checkpoint.setClaims(claims)
	}
}

// podChanges are the changes of one source.
type podChanges struct {
	remove, add, update, delete, reconcile []*v1.Pod
}

// movedPods returns the pods with a user-defined UID whose file moved from one
// source to another: they change their source and are not replaced.
func (c *PodConfig) movedPods() map[types.UID]*v1.Pod {
	moved := map[types.UID]*v1.Pod{}
	for source, state := range c.states {
		for i := range state.units {
			for _, document := range state.units[i].Documents {
				if state.pods[document.Pod.UID] != nil {
					continue
				}
				for other, holder := range c.states {
					if pod := holder.pods[document.Pod.UID]; other != source && pod != nil &&
						claimName(pod) == claimName(document.Pod) {
						moved[pod.UID] = pod
					}
				}
			}
		}
	}
	return moved
}

// diff brings the pods of a source to what is in effect and returns the
// changes.
func (c *PodConfig) diff(source Source, moved map[types.UID]*v1.Pod) podChanges {
	var changes podChanges
	state := c.states[source]
	claims := c.checkpoint.claims()
	pods := make(map[types.UID]*v1.Pod, len(state.pods))
	for i := range state.units {
		for _, document := range state.units[i].Documents {
			uid := document.Pod.UID
			before, known := state.pods[uid]
			if !known {
				before = moved[uid]
			}
			seen := claims[claimName(document.Pod)].Seen
			if seen.IsZero() {
				seen = c.now()
			}
			pods[uid] = changes.classify(before, document.Pod, source, seen)
			if !known && before != nil && pods[uid] == before {
				// The change of the source is an update, so that cleanup waits
				// for the new one.
				pods[uid] = stamped(document.Pod, source, before.Annotations[podinfo.AnnotationSeen])
				changes.update = append(changes.update, pods[uid])
			}
		}
	}
	for uid, pod := range state.pods {
		if pods[uid] == nil && moved[uid] == nil {
			changes.remove = append(changes.remove, pod)
		}
	}
	state.pods = pods
	changes.sort()
	return changes
}

// classify records the change of a pod and returns the pod to store. before is
// nil for a new pod. An equal pod stays the same object in memory.
func (ch *podChanges) classify(before, now *v1.Pod, source Source, seen time.Time) *v1.Pod {
	if before != nil && claimName(before) != claimName(now) {
		// One uid that a user set under another name: that is another pod.
		ch.remove = append(ch.remove, before)
		before = nil
	}
	if before == nil {
		pod := stamped(now, source, seen.Format(time.RFC3339Nano))
		ch.add = append(ch.add, pod)
		return pod
	}
	if source == SourceAPI && before.ResourceVersion == now.ResourceVersion && now.ResourceVersion != "" {
		return before
	}
	same := sameDesired(before, now)
	if same && sameStatus(before, now) {
		return before
	}
	pod := stamped(now, source, before.Annotations[podinfo.AnnotationSeen])
	switch {
	case same:
		ch.reconcile = append(ch.reconcile, pod)
	case pod.DeletionTimestamp != nil:
		ch.delete = append(ch.delete, pod)
	default:
		ch.update = append(ch.update, pod)
	}
	return pod
}

// sameDesired compares what the kubelet compares: the spec, the labels, the
// deletion, and the annotations except those that PodConfig sets.
func sameDesired(a, b *v1.Pod) bool {
	return a.Annotations[podinfo.AnnotationHash] == b.Annotations[podinfo.AnnotationHash] &&
		equality.Semantic.DeepEqual(a.DeletionTimestamp, b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) &&
		maps.Equal(a.Labels, b.Labels) &&
		sameAnnotations(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}

func sameStatus(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(&a.Status, &b.Status)
}

func sameAnnotations(a, b map[string]string) bool {
	return containsAnnotations(a, b) && containsAnnotations(b, a)
}

func containsAnnotations(all, some map[string]string) bool {
	for key, value := range some {
		switch key {
		case podinfo.AnnotationSource, podinfo.AnnotationSeen, podinfo.AnnotationMirror:
			continue
		}
		if other, ok := all[key]; !ok || other != value {
			return false
		}
	}
	return true
}

// stamped returns the pod with its source and the time it was first seen in the
// annotations that the kubelet uses. It shares everything else.
func stamped(pod *v1.Pod, source Source, seen string) *v1.Pod {
	marked := *pod
	marked.Annotations = maps.Clone(pod.Annotations)
	if marked.Annotations == nil {
		marked.Annotations = map[string]string{}
	}
	marked.Annotations[podinfo.AnnotationSource] = string(source)
	marked.Annotations[podinfo.AnnotationSeen] = seen
	return &marked
}

// sort sorts each kind of change by name, so that the same sets always give the
// same updates.
func (ch *podChanges) sort() {
	for _, pods := range [][]*v1.Pod{ch.remove, ch.add, ch.update, ch.delete, ch.reconcile} {
		slices.SortFunc(pods, func(a, b *v1.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
	}
}

// enqueue queues an update if it has pods.
func (c *PodConfig) enqueue(op Op, source Source, pods []*v1.Pod) bool {
	if len(pods) > 0 {
		c.queue = append(c.queue, PodUpdate{Op: op, Source: source, Pods: pods})
	}
	return len(pods) > 0
}

// enqueueRemove queues the REMOVE of one source if it releases any pod.
func (c *PodConfig) enqueueRemove(source Source, pods []*v1.Pod) {
	if !c.enqueue(Remove, source, pods) {
		return
	}
	// static holds, by name, whether the pod that has it is static.
	static := map[string]bool{}
	for source, state := range c.states {
		for _, pod := range state.pods {
			static[claimName(pod)] = static[claimName(pod)] || isStatic(source)
		}
	}
	replaced, successors := map[types.UID]bool{}, map[types.UID]bool{}
	for _, pod := range pods {
		if byStatic, taken := static[claimName(pod)]; taken {
			replaced[pod.UID] = true
			if byStatic {
				successors[pod.UID] = true
			}
		}
	}
	if len(replaced) > 0 {
		c.queue[len(c.queue)-1].Replaced = replaced
	}
	if len(successors) > 0 {
		c.queue[len(c.queue)-1].Successors = successors
	}
}

// restoredPods returns the pods in effect whose units this run of the daemon
// could not read.
func (s *sourceState) restoredPods() map[types.UID]bool {
	restored := map[types.UID]bool{}
	for i := range s.units {
		for _, document := range s.units[i].Documents {
			if s.units[i].Restored {
				restored[document.Pod.UID] = true
			}
		}
	}
	return restored
}

// enqueueRest queues the updates of one source that follow its REMOVE.
func (c *PodConfig) enqueueRest(source Source, changes podChanges, first bool) {
	add := Add
	if !c.states[source].delivered {
		add = Restore
	}
	added := c.enqueue(add, source, changes.add)
	if added && add == Restore {
		c.queue[len(c.queue)-1].FromCheckpoint = c.states[source].restoredPods()
		c.queue[len(c.queue)-1].Awaited = c.states[source].offer.Awaited
	}
	for _, rest := range []struct {
		op   Op
		pods []*v1.Pod
	}{{Update, changes.update}, {Delete, changes.delete}, {Reconcile, changes.reconcile}} {
		if c.enqueue(rest.op, source, rest.pods) {
			added = false
		}
	}
	if first && !added {
		c.queue = append(c.queue, PodUpdate{Op: Add, Source: source})
	}
}
