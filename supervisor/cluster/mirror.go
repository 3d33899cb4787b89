package cluster

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The annotations of a mirror pod.
const (
	// annotationMirror is the kubelet's: the hash of the static pod.
	annotationMirror = "kubernetes.io/config.mirror"
	annotationHash   = "kubernetes.io/config.hash"
	annotationSource = "kubernetes.io/config.source"
	// annotationLeftOut names what of the static pod an API server refuses in a
	// mirror, and what is therefore not shown in it.
	annotationLeftOut = "podstead.io/left-out-of-mirror"
)

// verb is what one mirror pod needs next.
type verb uint8

const (
	nothing verb = iota
	create
	remove
	patch
)

// step is the next request about one mirror pod.
type step struct {
	verb verb
	// pod is what is to be created.
	pod *v1.Pod
	// uid is the mirror that is to be removed or patched.
	uid  types.UID
	body []byte
}

// nextStep compares a static pod with its mirror; either may be nil. node is
// the registered one. By the kubelet's rules a mirror of another revision, or
// one that somebody deletes, is replaced; beside that one whose pod runs again
// after its end, since in the API an end is for ever, and one that belongs to a
// node of before, which a cluster would collect.
func nextStep(static, mirror *v1.Pod, node *v1.Node) (step, error) {
	// A daemon that has just started has not looked at the pod yet: what the API
	// has is the better word then.
	looked := static != nil && len(static.Status.Conditions) > 0
	switch {
	case static == nil && mirror == nil:
		return step{}, nil
	case static == nil:
		return step{verb: remove, uid: mirror.UID}, nil
	case mirror == nil && (node.DeletionTimestamp != nil || static.DeletionTimestamp != nil):
		return step{}, nil
	case mirror == nil:
		return step{verb: create, pod: mirrorOf(static, node)}, nil
	case mirror.DeletionTimestamp != nil,
		mirror.Annotations[annotationMirror] != static.Annotations[annotationHash],
		looked && ended(mirror.Status.Phase) && !ended(static.Status.Phase),
		!metav1.IsControlledBy(mirror, node):
		return step{verb: remove, uid: mirror.UID}, nil
	}
	if !looked {
		return step{}, nil
	}
	body, err := statusPatch(mirror.UID, mirror.Status, shownStatus(static, mirror))
	if body == nil || err != nil {
		return step{}, err
	}
	return step{verb: patch, uid: mirror.UID, body: body}, nil
}

func ended(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }

// shownStatus is the static pod's status as its mirror has it.
func shownStatus(static, mirror *v1.Pod) *v1.PodStatus {
	st := static.Status.DeepCopy()
	// The API server's own, which cannot change.
	st.QOSClass = mirror.Status.QOSClass
	if st.ObservedGeneration != 0 {
		st.ObservedGeneration = mirror.Generation
	}
	for i := range st.Conditions {
		if st.Conditions[i].ObservedGeneration != 0 {
			st.Conditions[i].ObservedGeneration = mirror.Generation
		}
	}
	for _, c := range mirror.Status.Conditions {
		if !slices.ContainsFunc(st.Conditions, func(own v1.PodCondition) bool { return own.Type == c.Type }) && !ownCondition(c.Type) {
			st.Conditions = append(st.Conditions, c)
		}
	}
	return st
}

// ownCondition tells the conditions that a node sets, and clears.
func ownCondition(t v1.PodConditionType) bool {
	switch t {
	case v1.PodScheduled, v1.PodReady, v1.ContainersReady, v1.PodInitialized, v1.PodReadyToStartContainers,
		v1.DisruptionTarget, v1.PodResizePending, v1.PodResizeInProgress:
		return true
	}
	return false
}
