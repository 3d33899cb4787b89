package podinputs

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// MissingHostIP explains why a pod cannot start before the node has an address, nil
// if it can. The HostIPs source notifies when there is one.
func (r *Resolver) MissingHostIP(pod *v1.Pod) *status.Cause {
	if len(r.hostIPs()) > 0 || !refersToHostIP(pod) {
		return nil
	}
	return &status.Cause{Reason: ReasonWaitingForHostIP,
		Message: "the pod refers to the node's IP address, and the node has none yet; " +
			"it starts once there is a default route, or start podstead with --node-ip"}
}

// refersToHostIP reports whether an environment variable of the pod is made from an
// address of the node. The addresses of a pod on the host's network are the node's.
func refersToHostIP(pod *v1.Pod) bool {
	asks := func(e v1.EnvVar) bool {
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			return false
		}
		switch e.ValueFrom.FieldRef.FieldPath {
		case "status.hostIP", "status.hostIPs":
			return true
		case "status.podIP", "status.podIPs":
			return pod.Spec.HostNetwork
		}
		return false
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		if slices.ContainsFunc(c.Env, asks) {
			return true
		}
	}
	return false
}
