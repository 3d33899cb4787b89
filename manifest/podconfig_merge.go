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

// merge works out what is in effect now and queues what changed. What any
// source lets go of comes first, so that it is free when another takes it.
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
			c.checkpoint.accept(source, state.accepted, !state.offer.Restored)
			state.accepted = nil
		}
	}
}

// isStatic tells the sources of manifests from the API server, which keeps its
// own memory and its own names.
func isStatic(source Source) bool { return source != SourceAPI }

// settleClaims sets the units in effect of every source.
func (c *PodConfig) resolveClaims() {
	settler := claimResolver{previous: c.checkpoint.claims(), pending: map[Source]bool{}}
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
	c.saveClaims(settler.previous, granted.claims)
}

// claimOrder is the order in which sources are preferred if nothing is
// remembered: file before http.
func (c *PodConfig) claimOrder() []Source {
	sources := slices.Clone(c.sources)
	slices.SortFunc(sources, func(a, b Source) int { return cmp.Compare(a, b) })
	return sources
}

// toRemember is the unit as the checkpoint is to have it. That is all of its
// pods: which of them have their names is told by the claims alone.
func (o *unitOffer) forCheckpoint() Unit {
	if o.rejections != nil {
		return o.accepted
	}
	return *o.unit
}

// inEffect is the unit with the documents that own their names.
func (o *unitOffer) inEffect(granted claimGrants) Unit {
	unit := *o.unit
	if o.rejections != nil {
		unit.Digest, unit.Objects = o.accepted.Digest, o.accepted.Objects
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

// keepClaims stamps when each pod was first seen and remembers the claims if
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

// podChanges are those of one source.
type podChanges struct {
	remove, add, update, delete, reconcile []*v1.Pod
}

// movedPods are the pods whose file moved from one source to another with
// their UID, which a user set: they change hands and are not replaced.
func (c *PodConfig) movedPods() map[types.UID]*v1.Pod {
	moved := map[types.UID]*v1.Pod{}
	for source, state := range c.states {
		for i := range state.units {
			for _, document := range state.units[i].Documents {
				if state.pods[document.Pod.UID] != nil {
					continue
				}
				for other, holder := range c.states {
					if pod := holder.pods[document.Pod.UID]; other != source && pod != nil && claimName(pod) == claimName(document.Pod) {
						moved[pod.UID] = pod
					}
				}
			}
		}
	}
	return moved
}

// diff brings the pods of a source to what is in effect.
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
				// Its new source must be told, so that cleanup asks that one.
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

// classify notes what became of a pod and returns it as it is kept. Before is
// nil for one that is new. An equal pod keeps its identity in memory.
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
	same := sameWanted(before, now)
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

// sameWanted compares what the kubelet compares: the spec, the labels, the
// deletion, and the annotations that are not the mux's own.
func sameWanted(a, b *v1.Pod) bool {
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

// stamped is the pod with its source and the time it was first seen, in the
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

// sort puts each kind into the order of the names, so that the same sets
// always give the same updates.
func (ch *podChanges) sort() {
	for _, pods := range [][]*v1.Pod{ch.remove, ch.add, ch.update, ch.delete, ch.reconcile} {
		slices.SortFunc(pods, func(a, b *v1.Pod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
	}
}

// enqueue puts an update into the queue, if it has pods.
func (c *PodConfig) enqueue(op Op, source Source, pods []*v1.Pod) bool {
	if len(pods) > 0 {
		c.queue = append(c.queue, PodUpdate{Op: op, Source: source, Pods: pods})
	}
	return len(pods) > 0
}

// enqueueRemove puts the REMOVE of one source into the queue, if it lets go of
// any pod.
func (c *PodConfig) enqueueRemove(source Source, pods []*v1.Pod) {
	if !c.enqueue(Remove, source, pods) {
		return
	}
	names := map[string]bool{}
	for _, state := range c.states {
		for _, pod := range state.pods {
			names[claimName(pod)] = true
		}
	}
	replaced := map[types.UID]bool{}
	for _, pod := range pods {
		if names[claimName(pod)] {
			replaced[pod.UID] = true
		}
	}
	if len(replaced) > 0 {
		c.queue[len(c.queue)-1].Replaced = replaced
	}
}

// enqueueRest puts the updates of one source into the queue that follow its
// REMOVE.
func (c *PodConfig) enqueueRest(source Source, changes podChanges, first bool) {
	add := Add
	if !c.states[source].delivered {
		add = Restore
	}
	added := c.enqueue(add, source, changes.add)
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
