package pod

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotations that limit the bandwidth of a pod, in bits per second. Runtimes pass them to the
// CNI plugin bandwidth.
const (
	AnnotationIngressBandwidth = "kubernetes.io/ingress-bandwidth"
	AnnotationEgressBandwidth  = "kubernetes.io/egress-bandwidth"
)

// Bounds of both, the kubelet's and the runtimes'.
var minBandwidth, maxBandwidth = resource.MustParse("1k"), resource.MustParse("1P")

// CheckBandwidth returns why a runtime would not create a sandbox with a value of these
// annotations, nil if it would.
func CheckBandwidth(value string) error {
	q, err := resource.ParseQuantity(value)
	if err != nil || q.Cmp(minBandwidth) < 0 || q.Cmp(maxBandwidth) > 0 {
		return fmt.Errorf("must be a quantity of bits per second from 1k to 1P, such as 10M")
	}
	return nil
}

// BandwidthAnnotations returns those that a pod has. A pod on the host's network has none: they
// have no effect on it.
func BandwidthAnnotations(pod *v1.Pod) (names []string) {
	if pod.Spec.HostNetwork {
		return nil
	}
	for _, name := range []string{AnnotationIngressBandwidth, AnnotationEgressBandwidth} {
		if _, ok := pod.Annotations[name]; ok {
			names = append(names, name)
		}
	}
	return names
}
