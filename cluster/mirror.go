package cluster

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// annotationLeftOut names the parts of a static pod that an API server rejects in
// a mirror pod, and that are therefore not shown.
const annotationLeftOut = "podstead.io/left-out-of-mirror"

// verb is the next request about a pod in the API.
type verb uint8

const (
	nothing verb = iota
	create
	remove
	patch
)

// step is the next request about one pod.
type step struct {
	verb verb
	// pod is to be created.
	pod *v1.Pod
	// uid is the pod to be deleted or patched.
	uid  types.UID
	body []byte
}

// mirrorStep compares a static pod with its mirror; either may be nil. node is the
// registered one. By the kubelet's rules a mirror of another revision, or one that
// is being deleted, is replaced, once no previous revision of the pod terminates any
// more. In addition a mirror is replaced if its pod runs again after it had
// terminated, since termination is final in the API, and if it belongs to a previous
// Node object, since the cluster would collect it. The object of a deleted mirror that
// a finalizer holds is waited for.
func mirrorStep(static, mirror *v1.Pod, node *v1.Node) (step, error) {
	// A daemon that has just started has not observed the pod yet: the API has the
	// better status.
	observed := static != nil && len(static.Status.Conditions) > 0
	switch {
	case static == nil && mirror == nil, mirror != nil && heldByFinalizers(mirror):
		return step{}, nil
	case static == nil:
		return step{verb: remove, uid: mirror.UID}, nil
	case mirror == nil && (node.DeletionTimestamp != nil || static.DeletionTimestamp != nil):
		return step{}, nil
	case mirror == nil:
		return step{verb: create, pod: mirrorOf(static, node)}, nil
	case static.DeletionTimestamp != nil && mirror.DeletionTimestamp == nil && !sameRevision(static, mirror):
		// Remains that a previous daemon left show no revision.
		return step{}, nil
	case mirror.DeletionTimestamp != nil, !sameRevision(static, mirror),
		observed && podinfo.IsTerminal(mirror.Status.Phase) && !podinfo.IsTerminal(static.Status.Phase),
		!metav1.IsControlledBy(mirror, node):
		return step{verb: remove, uid: mirror.UID}, nil
	}
	if !observed {
		return step{}, nil
	}
	return patchStep(mirror, mirrorStatus(static, mirror))
}

// sameRevision reports whether a mirror shows this revision of a static pod.
func sameRevision(static, mirror *v1.Pod) bool {
	return mirror.Annotations[podinfo.AnnotationMirror] == static.Annotations[podinfo.AnnotationHash] &&
		mirror.Annotations[podinfo.AnnotationImages] == static.Annotations[podinfo.AnnotationImages]
}

// mirrorStatus returns the status of the mirror pod.
func mirrorStatus(static, mirror *v1.Pod) *v1.PodStatus {
	st := shownStatus(static, mirror)
	if st.ObservedGeneration != 0 {
		st.ObservedGeneration = mirror.Generation
	}
	for i := range st.Conditions {
		if c := &st.Conditions[i]; c.ObservedGeneration != 0 && ownCondition(c) {
			c.ObservedGeneration = mirror.Generation
		}
	}
	for _, c := range static.Status.Conditions {
		if !ownCondition(&c) && conditionOf(&mirror.Status, c.Type) == nil {
			st.Conditions = append(st.Conditions, c)
		}
	}
	return st
}
