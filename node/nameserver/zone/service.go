package zone

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// addService adds the names of a Service: its own, those of its pods, and those of its ports.
func (z *Zone) addService(domain string, service *v1.Service, pods []Pod) {
	name := Name(service.Name, service.Namespace, domain)
	if service.Spec.Type == v1.ServiceTypeExternalName {
		z.Names[name] = Records{Alias: strings.ToLower(strings.TrimSuffix(service.Spec.ExternalName, "."))}
		return
	}
	z.add(name, nil)
	for _, pod := range pods {
		if pod.Namespace != service.Namespace || !selects(service, pod.Pod) || !isReady(pod.Pod) &&
			!service.Spec.PublishNotReadyAddresses {
			continue
		}
		addresses := slices.DeleteFunc(addressesOf(pod.Pod), func(a netip.Addr) bool { return !hasFamily(service, a) })
		z.add(name, addresses)
		for _, a := range addresses {
			host := hostLabel(pod.Pod, service.Name, a) + "." + name
			z.add(host, []netip.Addr{a})
			z.addPorts(name, host, service, pod.Pod)
			if !pod.Spec.HostNetwork {
				z.addReverse([]netip.Addr{a}, host)
			}
		}
	}
}

// selects reports whether a Service selects a pod. One without a selector selects none.
func selects(service *v1.Service, pod *v1.Pod) bool {
	for key, value := range service.Spec.Selector {
		if has, ok := pod.Labels[key]; !ok || has != value {
			return false
		}
	}
	return len(service.Spec.Selector) > 0
}

// hasFamily reports whether a Service has addresses of this family: every one unless ipFamilies
// is set.
func hasFamily(service *v1.Service, a netip.Addr) bool {
	family := v1.IPv4Protocol
	if a.Is6() {
		family = v1.IPv6Protocol
	}
	return len(service.Spec.IPFamilies) == 0 || slices.Contains(service.Spec.IPFamilies, family)
}

// addPorts adds the SRV records of a pod behind a Service, for the ports that have a name.
func (z *Zone) addPorts(name, host string, service *v1.Service, pod *v1.Pod) {
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		number := portOf(port, pod)
		if port.Name == "" || number == 0 {
			continue
		}
		protocol := port.Protocol
		if protocol == "" {
			protocol = v1.ProtocolTCP
		}
		label := strings.ToLower("_" + port.Name + "._" + string(protocol) + "." + name)
		z.addPort(label, Port{Target: host, Port: number})
	}
}

// portOf returns the port on which a pod serves a port of a Service, 0 if it has no port of that
// name.
func portOf(port *v1.ServicePort, pod *v1.Pod) uint16 {
	switch target := port.TargetPort; {
	case target.Type == intstr.String && target.StrVal != "":
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				if p.Name == target.StrVal {
					return uint16(p.ContainerPort)
				}
			}
		}
		return 0
	case target.IntVal != 0:
		return uint16(target.IntVal)
	}
	return uint16(port.Port)
}
