// Package podresources serves the PodResources API v1 of the kubelet, from which exporters of
// devices and of CPUs read which container has which.
//
// It owns the socket. It reads the pods, and the allocations of devices and CPUs, through small
// interfaces. It never changes an allocation.
package podresources
