package admit

import (
	v1 "k8s.io/api/core/v1"
)

// Reasons of refusals, the kubelet's. It calls a pod that it refuses Failed and
// never looks at it again; here the pod waits.
const (
	ReasonSysctl   = "SysctlForbidden"
	ReasonAffinity = "NodeAffinity"
	ReasonAppArmor = "AppArmor"
	ReasonPorts    = "NodePorts"
	ReasonTaint    = "TaintToleration"
)

// Reasons are all of them.
var Reasons = []string{ReasonSysctl, ReasonAffinity, ReasonAppArmor, ReasonPorts, ReasonTaint}

// Node is what a pod is held against.
type Node struct {
	Name string
	// Labels are those that selectors match.
	Labels map[string]string
	// UnsafeSysctls are kernel parameters beyond the safe ones that pods may
	// set; one that ends in * stands for all that begin so.
	UnsafeSysctls []string
	// Taints are those that the node has in its cluster, which pods of the cluster
	// must tolerate; nil without a cluster.
	Taints func() []v1.Taint
	Host
}

// Refusal is why a pod may not run here, and what would change that.
type Refusal struct{ Reason, Message string }

// Judge is nil if the pod may run on the node.
func Judge(pod *v1.Pod, n *Node) *Refusal {
	for _, rule := range []func(*v1.Pod, *Node) *Refusal{sysctls, selected, tolerated, appArmor} {
		if refusal := rule(pod, n); refusal != nil {
			return refusal
		}
	}
	return nil
}
