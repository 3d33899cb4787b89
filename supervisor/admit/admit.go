package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Reasons of the node's checks, as in the kubelet.
const (
	ReasonSysctl   = "SysctlForbidden"
	ReasonAffinity = "NodeAffinity"
	ReasonAppArmor = "AppArmor"
	ReasonPorts    = "NodePorts"
	ReasonTaint    = "TaintToleration"
	ReasonOS       = "PodOSNotSupported"
)

// Reasons of a pod that may not run next to those that run, or not without others: the names of
// the scheduler's plugins. The kubelet has none.
const (
	ReasonPodAffinity    = "InterPodAffinity"
	ReasonTopologySpread = "PodTopologySpread"
)

// IsPlacement reports whether a reason is about the pods that run on the same node.
func IsPlacement(reason string) bool {
	return reason == ReasonPodAffinity || reason == ReasonTopologySpread
}

// Reasons lists those of a pod that does not start unless something is changed.
var Reasons = []string{ReasonSysctl, ReasonAffinity, ReasonAppArmor, ReasonPorts, ReasonTaint, ReasonOS}

// Node is what pods are checked against.
type Node struct {
	Name string
	// Labels are those that selectors match.
	Labels map[string]string
	// UnsafeSysctls are kernel parameters beyond the safe ones that pods may
	// set; one that ends in * matches all with that prefix.
	UnsafeSysctls []string
	// Taints returns those of the node in its cluster, which pods of the cluster
	// must tolerate; nil without a cluster.
	Taints func() []v1.Taint
	Host
}

// Cause is why a pod may not run on this node, and what would change that. Its
// caller decides whether the pod is rejected, as at the kubelet, or held.
type Cause struct{ Reason, Message string }

// Check returns why a pod may not run on the node, nil if it may. It does not look
// at resources, ports and other pods; Reservations do.
func Check(pod *v1.Pod, n *Node) *Cause {
	for _, check := range []func(*v1.Pod, *Node) *Cause{checkOS, checkSysctls, checkSelector, checkTopology, checkTaints,
		checkAppArmor} {
		if cause := check(pod, n); cause != nil {
			return cause
		}
	}
	return nil
}

// checkOS checks the operating system that the pod is for. A manifest for another one
// is rejected when it is read.
func checkOS(pod *v1.Pod, _ *Node) *Cause {
	if pod.Spec.OS == nil || pod.Spec.OS.Name == v1.Linux {
		return nil
	}
	return &Cause{ReasonOS, fmt.Sprintf("spec.os.name: %s is not the operating system of this node, which runs linux; "+
		"schedule the pod to another node", pod.Spec.OS.Name)}
}
