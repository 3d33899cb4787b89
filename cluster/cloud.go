package cluster

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

const (
	// taintUninitialized keeps pods off a node until a cloud controller manager has
	// initialized it.
	taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	// AnnotationNodeIP tells a cloud controller manager the addresses that the node is
	// configured with, separated by commas.
	AnnotationNodeIP = "alpha.kubernetes.io/provided-node-ip"
)

// uninitialized returns a node as it registers for a cloud controller manager: with the
// taint that the manager removes, and without addresses that it has to find, unless the
// node is configured with one.
func uninitialized(n *v1.Node) *v1.Node {
	n.Spec.Taints = append(slices.Clone(n.Spec.Taints),
		v1.Taint{Key: taintUninitialized, Value: "true", Effect: v1.TaintEffectNoSchedule})
	n.Status.Addresses = cloudAddresses(n, nil)
	return n
}

// cloudAddresses returns the addresses of a node of a cloud, by the kubelet's rule: those
// that the API has, which the cloud controller manager set, before those of its own. Of
// these it has only its name, unless it is configured with an address.
func cloudAddresses(local *v1.Node, have []v1.NodeAddress) []v1.NodeAddress {
	switch {
	case len(have) > 0:
		return have
	case local.Annotations[AnnotationNodeIP] != "":
		return local.Status.Addresses
	}
	return slices.DeleteFunc(slices.Clone(local.Status.Addresses),
		func(a v1.NodeAddress) bool { return a.Type != v1.NodeHostName })
}
