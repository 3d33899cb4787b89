// Package cgroup manages the cgroups of pods: a root with a tier for each lower
// QoS class, and in them one cgroup per pod, whose limits hold whatever its
// containers are given.
//
//	/podstead                    what the node can give to pods
//	/podstead/podUID             a Guaranteed pod
//	/podstead/burstable/podUID   a Burstable pod
//	/podstead/besteffort/podUID  a BestEffort pod
//
// It owns everything below its root: it creates and limits cgroups before the
// runtime creates those of containers in them, and kills what is left in them
// after their pod has terminated. It reads the machine's mounts and /proc. It
// never touches anything outside the root, except that it enables the controllers
// of the unified hierarchy on the way to it, and never a pod that was created
// without a cgroup of its own.
//
// It supports both cgroup versions and both drivers. With cgroupfs it writes the
// kernel's files; with systemd each cgroup is also a slice, so that systemd knows
// the values and never resets them.
package cgroup
