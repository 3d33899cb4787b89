package podinputs

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// field returns the value of a fieldRef.
func (b *envBuilder) field(path string) (string, error) {
	podIPs := b.podIPs
	if b.pod.Spec.HostNetwork {
		// The kubelet leaves them empty for static pods.
		podIPs = b.hostIPs
	}
	switch path {
	case "spec.nodeName":
		return b.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return b.pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return primary(b.hostIPs), nil
	case "status.hostIPs":
		return strings.Join(b.hostIPs, ","), nil
	case "status.podIP":
		return primary(podIPs), nil
	case "status.podIPs":
		return strings.Join(podIPs, ","), nil
	}
	value, err := metadataField(b.pod, path)
	if err != nil {
		return "", fmt.Errorf("fieldRef: fieldPath %q is not supported in an environment variable", path)
	}
	return value, nil
}

// resource returns the value of a resourceFieldRef.
func (b *envBuilder) resource(ref *v1.ResourceFieldSelector) (string, error) {
	return resourceField(b.pod, b.container, ref, b.allocatable)
}

// primary returns the first address, empty if there is none.
func primary(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
