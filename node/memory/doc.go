// Package memory assigns memory and hugepages of NUMA nodes to containers: the policy Static of the
// kubelet's memory manager.
//
// It owns the assignments and their file. It reads how much memory the NUMA nodes have in sysfs.
// Which NUMA nodes a container uses is set when it is created (cpuset.mems), by the caller; this
// package never starts, changes or ends a container. With the policy None nothing of it runs.
package memory
