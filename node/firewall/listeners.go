package firewall

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/hostsockets"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Recorder records events of pods.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// WarnOfListeners records an event for each host port of a pod on which a process of the host
// listens. The pod still starts, as with the kubelet: after a boot the process may be one that
// is about to end, and a pod that does not start is worse.
func WarnOfListeners(events Recorder, pod *v1.Pod) {
	var ports []hostsockets.Port
	for _, p := range podinfo.HostPorts(pod) {
		ports = append(ports, hostsockets.Port{IP: p.IP, Protocol: string(p.Protocol), Number: p.Number})
	}
	for _, l := range hostsockets.Find("/proc", ports) {
		events.Event(pod, v1.EventTypeWarning, "HostPortConflict", l.String())
	}
}
