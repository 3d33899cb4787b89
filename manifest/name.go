package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// BaseName is the name that a static pod has in its manifest: its own without
// the suffix "-<node>". Any other pod's name is returned as it is.
func BaseName(pod *v1.Pod) string {
	switch Source(pod.Annotations[podinfo.AnnotationSource]) {
	case SourceFile, SourceHTTP:
		return strings.TrimSuffix(pod.Name, nodeSuffix(pod.Spec.NodeName))
	}
	return pod.Name
}

// nodeSuffix is what a static pod's name ends in: as at the kubelet, the node
// name in lower case, since a pod's name must be.
func nodeSuffix(node string) string {
	return "-" + strings.ToLower(node)
}
