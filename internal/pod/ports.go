package pod

import v1 "k8s.io/api/core/v1"

// anyIP is every address of the host; a port without a hostIP is on it.
const anyIP = "0.0.0.0"

// HostPort is a host port that a container requests.
type HostPort struct {
	IP       string
	Protocol v1.Protocol
	Number   int32
}

// HostPorts returns the host ports that a pod holds as long as it runs: those of its
// regular containers and sidecars. A pod on the host's network holds all ports that
// it declares, since their hostPort is set.
func HostPorts(pod *v1.Pod) []HostPort {
	var ports []HostPort
	for c := range LongRunning(&pod.Spec) {
		for i := range c.Ports {
			if p := &c.Ports[i]; p.HostPort != 0 {
				port := HostPort{IP: p.HostIP, Protocol: p.Protocol, Number: p.HostPort}
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

// Conflicts reports whether two ports cannot be held at the same time.
func (p HostPort) Conflicts(o HostPort) bool {
	return p.Number == o.Number && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == anyIP || o.IP == anyIP)
}
