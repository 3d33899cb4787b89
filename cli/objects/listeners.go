package objects

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/hostsockets"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// HostListeners returns, by the key of a pod, which process of this host listens on one of its host
// ports. The runtime gives the connections to the pod, and neither reports an error.
func HostListeners(pods []v1.Pod) Causes {
	var ports []podinfo.HostPort
	owners := map[podinfo.HostPort]*v1.Pod{}
	for i := range pods {
		p := &pods[i]
		if p.Spec.HostNetwork || p.Status.PodIP == "" || podinfo.IsTerminal(p.Status.Phase) {
			continue // it listens itself, or has no ports now
		}
		for _, port := range podinfo.HostPorts(p) {
			ports, owners[port] = append(ports, port), p
		}
	}
	causes := Causes{}
	if len(ports) == 0 {
		return causes
	}
	for _, l := range hostsockets.Find("/proc", ports) {
		if key := podKey(owners[l.Port]); causes[key] == "" {
			causes[key] = l.String()
		}
	}
	return causes
}
