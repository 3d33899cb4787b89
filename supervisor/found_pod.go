package supervisor

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// podFrom returns what is known of a pod whose manifest is gone, from its
// containers.
func podFrom(found *cri.Pod) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: found.Name, Namespace: found.Namespace, UID: found.UID,
		Annotations: map[string]string{podinfo.AnnotationSource: found.Source},
	}}
	pod.Spec.RestartPolicy = v1.RestartPolicyAlways
	for i := range found.Containers {
		c := &found.Containers[i]
		if !slices.ContainsFunc(pod.Spec.Containers, func(o v1.Container) bool { return o.Name == c.Name }) {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
		}
	}
	return pod
}

// foundGrace returns the longest grace period in the labels of a pod's containers, in
// seconds. The kubelet gives orphans one second; a database needs the time that its
// manifest gave it.
func foundGrace(found *cri.Pod) int64 {
	grace := int64(-1)
	if found != nil {
		for i := range found.Containers {
			if g := found.Containers[i].TerminationGracePeriod; g != nil {
				grace = max(grace, *g)
			}
		}
	}
	if grace < 0 {
		return v1.DefaultTerminationGracePeriodSeconds
	}
	return grace
}
