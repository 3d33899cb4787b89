package podinputs

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// field is what the downward API tells a variable of the pod.
func (b *envBuilder) field(path string) (string, error) {
	podIPs := b.podIPs
	if b.pod.Spec.HostNetwork {
		// The kubelet leaves them empty without an API server.
		podIPs = b.hostIPs
	}
	switch path {
	case "spec.nodeName":
		return b.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return b.pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(b.hostIPs), nil
	case "status.hostIPs":
		return strings.Join(b.hostIPs, ","), nil
	case "status.podIP":
		return first(podIPs), nil
	case "status.podIPs":
		return strings.Join(podIPs, ","), nil
	}
	value, err := metadataField(b.pod, path)
	if err != nil {
		return "", fmt.Errorf("fieldRef: fieldPath %q cannot be a variable", path)
	}
	return value, nil
}

func (b *envBuilder) resource(ref *v1.ResourceFieldSelector) (string, error) {
	return resourceField(b.pod, b.container, ref, b.allocatable)
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
