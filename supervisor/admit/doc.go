// Package admit says whether a pod may run on this node.
//
// It owns the rules by which a pod is admitted, each a pure function of the pod
// and the node with the kubelet's reason and a message for people. It reads
// what Host finds out about the machine once, at the daemon's start. It decides
// nothing about a pod that runs, and it never asks a runtime.
package admit
