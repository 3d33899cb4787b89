// Package topology aligns the resources of containers to NUMA nodes: the kubelet's topology
// manager.
//
// It owns the policies, and the NUMA nodes that were chosen for containers that start. It asks
// the managers of CPUs and memory, and the devices, which NUMA nodes could serve a container
// (hints), merges the hints, and lets the managers assign. It reads the NUMA nodes in sysfs. It
// assigns nothing itself, and never starts or ends a container.
package topology
