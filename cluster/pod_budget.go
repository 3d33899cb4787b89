package cluster

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

const (
	// maxPodMemory is the maximum of the memory in bytes of what the cluster's pods on this
	// node specify, in all. The daemon needs six times as much at its peak, since each step
	// of a pod's start has it in a form of its own.
	maxPodMemory = 16 << 20
	// containerMemory is what each container counts in addition to what it specifies. It
	// limits how many containers there are, since the runtime lists all of them in one
	// answer, of 16 MiB at most with containerd. Each needs 2 KB there, see listedContainer in
	// package supervisor, twice if one that has ended is kept, and each pod up to 16 KiB.
	containerMemory = 12 << 10
	// podGrowth is how many bytes a pod may grow by after it was accepted, also where its
	// namespace has no space: 110 pods, the default of maxPods, grow by 7 MiB.
	podGrowth = 64 << 10
	// maxRefused is how many rejected pods are known: a list has at most as many of them. Each
	// needs 2 KB. Those beyond are rejected once others are gone.
	maxRefused = 5000
	// maxKept is the size of those annotations and owners of mirror pods that are kept.
	maxKept = 256
)

// reasonPodsTooLarge is the reason of a pod that is rejected for its size.
const reasonPodsTooLarge = "PodsTooLarge"

// podBudget decides which of the pods that the cluster binds to this node have space in its
// memory. Of the others only the identity is kept, and they are rejected. A pod that was
// accepted once is never rejected, and a daemon that starts takes it as it is. If it then grows
// far without space, its last specification stays.
type podBudget struct {
	started func(types.UID) bool

	mu sync.Mutex
	namespaceShares
	pods map[types.UID]*budgetedPod
	// refused is how many of the pods have no space.
	refused int
}

type budgetedPod struct {
	namespace string
	size      int
	// base is the size with which the pod was accepted.
	base int
	// refused is why the pod has no space, empty if it has.
	refused string
	// kept is the pod as it was accepted last; grown reports that a later version is too large,
	// and that this is not reported yet.
	kept  *v1.Pod
	grown bool
	// provisional: a pod of the first list. Pods that run and are listed later take its space.
	provisional bool
}

// newPodBudget returns an empty budget. started reports whether a pod was started on this node;
// nil reports none.
func newPodBudget(started func(types.UID) bool) *podBudget {
	return &podBudget{
		started: started, namespaceShares: newNamespaceShares(maxPodMemory), pods: map[types.UID]*budgetedPod{},
	}
}

// reduce returns a pod as it is kept in memory.
func (b *podBudget) reduce(pod *v1.Pod) *v1.Pod {
	pod, p := b.add(pod)
	if p != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		p.provisional = false
	}
	return pod
}

// add counts a pod and returns it as it is kept.
func (b *podBudget) add(pod *v1.Pod) (*v1.Pod, *budgetedPod) {
	if isMirror(pod) {
		return reducedMirror(pod), nil
	}
	pod.ManagedFields = nil
	size, accepted := podMemory(pod), b.wasAccepted(pod)
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pods[pod.UID]
	if p == nil {
		p = &budgetedPod{namespace: pod.Namespace, provisional: !accepted}
		b.pods[pod.UID] = p
	}
	switch {
	case p.refused != "":
		return identityOf(pod), p
	case p.kept == nil && (accepted || b.fits(p.namespace, p.size, size)):
		p.base = size
	case p.kept != nil && (size <= p.base+podGrowth || b.fits(p.namespace, p.size, size)):
	case p.kept != nil:
		p.grown = true
		p.kept = grownPod(pod, p.kept)
		return p.kept, p
	default:
		b.refuse(p, fmt.Sprintf("with it, the specifications of the namespace's pods on this node need more memory than "+
			"half of what other namespaces leave of %d MiB; make the pod smaller, or delete other pods of the namespace from "+
			"this node", b.max>>20))
		return identityOf(pod), p
	}
	b.resizePod(p, size)
	p.kept, p.grown = pod, false
	return pod, p
}

// decodeList reads a list of pods, and keeps of each what has space.
func (b *podBudget) decodeList(from io.Reader) (runtime.Object, error) {
	list := &objectList{}
	var err error
	list.ListMeta, err = decodeList(from, "PodList", func() runtime.Object { return &v1.Pod{} }, func(o runtime.Object) {
		pod, _ := b.add(o.(*v1.Pod))
		if b.leaveOut(pod.UID) {
			return
		}
		list.Items = append(list.Items, pod)
		b.makeSpace(list.Items)
	})
	return list, err
}

// leaveOut forgets a rejected pod of a list if there are too many, and reports whether it has.
func (b *podBudget) leaveOut(uid types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.pods[uid]; p == nil || p.refused == "" || b.refused <= maxRefused {
		return false
	}
	b.forget(uid)
	return true
}

// refuse rejects a pod; the caller holds mu.
func (b *podBudget) refuse(p *budgetedPod, why string) {
	b.resizePod(p, 0)
	p.kept, p.refused = nil, why
	b.refused++
}

// forget forgets a pod; the caller holds mu.
func (b *podBudget) forget(uid types.UID) {
	p := b.pods[uid]
	if p == nil {
		return
	}
	b.resizePod(p, 0)
	if p.refused != "" {
		b.refused--
	}
	delete(b.pods, uid)
}

// wasAccepted reports whether this node has accepted a pod, so that a daemon that starts must
// not reject it. Only nodes write statuses.
func (b *podBudget) wasAccepted(pod *v1.Pod) bool {
	return !podinfo.IsTerminal(pod.Status.Phase) && (pod.Status.StartTime != nil || pod.Status.Phase == v1.PodRunning) ||
		b.started != nil && b.started(pod.UID)
}

// resizePod sets the size of a pod; the caller holds mu.
func (b *podBudget) resizePod(p *budgetedPod, size int) {
	b.resize(p.namespace, size-p.size)
	p.size = size
}

// makeSpace refuses pods of a list that no node has accepted yet, the last first, while all
// need more than there is: pods that run may be listed after them.
func (b *podBudget) makeSpace(listed []runtime.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(listed) - 1; i >= 0 && b.total > b.max; i-- {
		pod := listed[i].(*v1.Pod)
		p := b.pods[pod.UID]
		if p == nil || p.kept == nil || !p.provisional || b.used[p.namespace] <= b.floor() {
			continue
		}
		b.refuse(p, fmt.Sprintf("the pods that were started on this node before leave no space for its specification in %d "+
			"MiB of memory; delete some of them, or run it on another node", b.max>>20))
		listed[i] = identityOf(pod)
	}
}

// remove forgets a pod.
func (b *podBudget) remove(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(uid)
}

// retain forgets the pods that are not in the list.
func (b *podBudget) retain(listed []*v1.Pod) {
	known := uidsOf(listed)
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range b.pods {
		if !known[uid] {
			b.forget(uid)
		}
	}
}

// takeGrowth returns once why the last change of a pod has no effect, empty if it has.
func (b *podBudget) takeGrowth(uid types.UID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.pods[uid]; p != nil && p.grown {
		p.grown = false
		return fmt.Sprintf("the pod has grown by more than %d KiB since it was accepted, and its namespace has no space "+
			"for that: the change has no effect here; make the change smaller, or delete other pods of the namespace from "+
			"this node", podGrowth>>10)
	}
	return ""
}

// refusal returns why a pod is rejected, empty if it is not.
func (b *podBudget) refusal(uid types.UID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.pods[uid]; p != nil {
		return p.refused
	}
	return ""
}

// identityOf returns what is needed to reject a pod and to remove it.
func identityOf(pod *v1.Pod) *v1.Pod {
	meta := metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		Generation:        pod.Generation,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
	}
	if len(pod.Finalizers) > 0 {
		meta.Finalizers = []string{pod.Finalizers[0]}
	}
	st := v1.PodStatus{Phase: pod.Status.Phase, Reason: pod.Status.Reason, QOSClass: pod.Status.QOSClass}
	return &v1.Pod{ObjectMeta: meta, Status: st}
}

// reducedMirror returns what is compared of a mirror pod, which has no more than its pod here.
// One that another client created is removed, whatever it has.
func reducedMirror(pod *v1.Pod) *v1.Pod {
	kept := identityOf(pod)
	kept.Status = pod.Status
	for _, name := range []string{podinfo.AnnotationMirror, podinfo.AnnotationSource, podinfo.AnnotationHash,
		podinfo.AnnotationImages} {
		if value, ok := pod.Annotations[name]; ok && len(value) <= maxKept {
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[name] = value
		}
	}
	if kept.Annotations[podinfo.AnnotationMirror] == "" {
		kept.Annotations = map[string]string{podinfo.AnnotationMirror: "too long"}
	}
	if owner := metav1.GetControllerOf(pod); owner != nil &&
		len(owner.APIVersion)+len(owner.Kind)+len(owner.Name)+len(owner.UID) <= 2*maxKept {
		kept.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return kept
}

// grownPod returns a pod with the specification that it had before, and with what the
// cluster reports of its end.
func grownPod(pod, before *v1.Pod) *v1.Pod {
	kept := *before
	id := identityOf(pod)
	kept.ResourceVersion, kept.Finalizers = id.ResourceVersion, id.Finalizers
	kept.DeletionTimestamp, kept.DeletionGracePeriodSeconds = id.DeletionTimestamp, id.DeletionGracePeriodSeconds
	kept.Status = pod.Status
	return &kept
}

// podMemory returns about how many bytes of memory a pod needs, without its status. A megabyte
// of short fields needs thirty of memory. The containers of a pod that has ended are removed.
func podMemory(pod *v1.Pod) int {
	containers := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
	if podinfo.IsTerminal(pod.Status.Phase) {
		containers = 0
	}
	return containers*containerMemory + memory(reflect.ValueOf(&pod.ObjectMeta)) + memory(reflect.ValueOf(&pod.Spec))
}

var flatTypes = []reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[resource.Quantity]()}

// memory returns about how many bytes a value refers to.
func memory(v reflect.Value) (size int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return int(v.Type().Elem().Size()) + memory(v.Elem())
	case reflect.Slice:
		size = v.Cap() * int(v.Type().Elem().Size())
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return size
		}
		for i := range v.Len() {
			size += memory(v.Index(i))
		}
	case reflect.Map:
		const entry = 16
		for it := v.MapRange(); it.Next(); {
			size += entry + int(v.Type().Key().Size()+v.Type().Elem().Size()) + memory(it.Key()) + memory(it.Value())
		}
	case reflect.Struct:
		if slices.Contains(flatTypes, v.Type()) {
			return 0
		}
		for i := range v.NumField() {
			size += memory(v.Field(i))
		}
	}
	return size
}
