package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// anyIP is every address of the host; a port without a hostIP is on it.
const anyIP = "0.0.0.0"

// Port is one port of the host that a container asks for.
type Port struct {
	IP       string
	Protocol v1.Protocol
	Number   int32
}

// HostPorts are the ports of the host that a pod has as long as it runs: those
// of its containers and sidecars. Of a pod on the host's network these are all
// that it declares.
func HostPorts(pod *v1.Pod) []Port {
	var ports []Port
	add := func(c *v1.Container) {
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
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return ports
}

func (p Port) clashes(o Port) bool {
	return p.Number == o.Number && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == anyIP || o.IP == anyIP)
}

// PortTaken is nil if a pod can have its ports beside another one, which has
// its own.
func PortTaken(pod, holder *v1.Pod) *Refusal {
	held := HostPorts(holder)
	for _, port := range HostPorts(pod) {
		for _, other := range held {
			if port.clashes(other) {
				return &Refusal{Reason: ReasonPorts, Message: fmt.Sprintf(
					"hostPort %d (%s on %s) is that of pod %s/%s; it starts when that has ended, or with another port",
					port.Number, port.Protocol, port.IP, holder.Namespace, holder.Name)}
			}
		}
	}
	return nil
}
