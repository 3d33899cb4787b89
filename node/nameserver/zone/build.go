package zone

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Pod is a pod with its present status, and the name that it has in its manifest.
type Pod struct {
	*v1.Pod
	Base string
}

// Build returns the zone of the pods and Services of this node. Both lists are sorted by the
// caller, so that equal pods give an equal zone.
//
// A pod has the name POD.NAMESPACE.svc.DOMAIN, as if it had a headless Service of its own. That is
// a departure from Kubernetes, in which only Services have names; a Service of the same name
// takes precedence.
func Build(domain string, pods []Pod, services []*v1.Service) Zone {
	z := Zone{Names: map[string]Records{}, Reverse: map[netip.Addr][]string{}, Namespaces: map[netip.Addr]string{}}
	for _, service := range services {
		z.addService(domain, service, pods)
	}
	for _, pod := range pods {
		addresses := addressesOf(pod.Pod)
		name := Name(pod.Base, pod.Namespace, domain)
		if !isDeclared(services, pod.Base, pod.Namespace) {
			var ready []netip.Addr
			if isReady(pod.Pod) {
				ready = addresses
			}
			z.add(name, ready)
		}
		if pod.Spec.HostNetwork {
			continue // its addresses are the node's, which has names of its own
		}
		for _, a := range addresses {
			z.Namespaces[a] = pod.Namespace
			if len(z.Reverse[a]) == 0 {
				z.Reverse[a] = []string{name}
			}
		}
	}
	return z
}

func isDeclared(services []*v1.Service, name, namespace string) bool {
	return slices.ContainsFunc(services, func(s *v1.Service) bool { return s.Name == name && s.Namespace == namespace })
}

// addressesOf returns the addresses of a pod that runs or starts; none of one that has ended.
func addressesOf(pod *v1.Pod) (addresses []netip.Addr) {
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		return nil
	}
	for _, ip := range pod.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			addresses = append(addresses, a.Unmap())
		}
	}
	return addresses
}

// isReady reports whether a pod may be given to clients. One that terminates is not, as in
// the endpoints of Kubernetes.
func isReady(pod *v1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// hostLabel returns the label of an address of a Service: the pod's hostname if its subdomain is
// the Service, else the address with dashes, as CoreDNS has it.
func hostLabel(pod *v1.Pod, service string, a netip.Addr) string {
	if pod.Spec.Hostname != "" && pod.Spec.Subdomain == service {
		return strings.ToLower(pod.Spec.Hostname)
	}
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
}
