package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// anyIP is every address of the host; a port without a hostIP is on it.
const anyIP = "0.0.0.0"

// Port is a host port that a container requests.
type Port struct {
	IP       string
	Protocol v1.Protocol
	Number   int32
}

// HostPorts returns the host ports that a pod holds as long as it runs: those of its
// regular containers and sidecars. A pod on the host's network holds all ports that
// it declares, since their hostPort is set.
func HostPorts(pod *v1.Pod) []Port {
	var ports []Port
	for c := range podinfo.LongRunning(&pod.Spec) {
		for i := range c.Ports {
			if p := &c.Ports[i]; p.HostPort != 0 {
				port := Port{IP: p.HostIP, Protocol: p.Protocol, Number: p.HostPort}
				if port.IP == "" {
					port.IP = anyIP
				}
				if port.Protocol == "" {
					port.Protocol = v1.ProtocolTCP
				}
				ports = append(ports, port)
			}
		}
	}
	return ports
}

func (p Port) conflicts(o Port) bool {
	return p.Number == o.Number && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == anyIP || o.IP == anyIP)
}

// PortTaken returns why a pod cannot have its ports at the same time as another pod,
// nil if it can.
func PortTaken(pod, holder *v1.Pod) *Cause {
	held := HostPorts(holder)
	for _, port := range HostPorts(pod) {
		for _, other := range held {
			if port.conflicts(other) {
				return &Cause{Reason: ReasonPorts, Message: fmt.Sprintf(
					"hostPort %d (%s on %s) is in use by pod %s/%s; the pod starts when that one has ended, or with another port",
					port.Number, port.Protocol, port.IP, holder.Namespace, holder.Name)}
			}
		}
	}
	return nil
}
