// Package podresources serves the PodResources API of the kubelet (v1 and v1alpha1), from which exporters of
// devices, CPUs and memory read which container has which.
//
// It owns the socket. It reads the pods, and the allocations of devices, CPUs and memory, through small
// interfaces. It never changes an allocation.
package podresources
