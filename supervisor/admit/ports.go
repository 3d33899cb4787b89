package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// PortTaken returns why a pod cannot have its ports at the same time as another pod,
// nil if it can.
func PortTaken(pod, holder *v1.Pod) *Cause {
	held := podinfo.HostPorts(holder)
	for _, port := range podinfo.HostPorts(pod) {
		for _, other := range held {
			if port.Conflicts(other) {
				return &Cause{Reason: ReasonPorts, Message: fmt.Sprintf(
					"hostPort %d (%s on %s) is in use by pod %s/%s; the pod starts when that one has ended, or with another port",
					port.Number, port.Protocol, port.IP, holder.Namespace, holder.Name)}
			}
		}
	}
	return nil
}
