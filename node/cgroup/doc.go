// Package cgroup keeps the cgroups of pods: a root of its own with a tier for
// each lower QoS class, in them a cgroup for each pod, whose limits hold
// whatever the pod's containers are given.
//
//	/podstead                    what the node can give to pods
//	/podstead/podUID             a Guaranteed pod
//	/podstead/burstable/podUID   a Burstable one
//	/podstead/besteffort/podUID  a BestEffort one
//
// It owns all below its root: it makes and limits cgroups before the runtime
// makes those of containers in them, and ends what is left in them when their
// pod has ended. It reads the machine's mounts and /proc. It never touches what
// lies outside the root, but to let the unified hierarchy's controllers through
// to it, and never a pod that was made without a cgroup of its own.
//
// Both versions of cgroups and both drivers are served. With cgroupfs the
// kernel's files are all there is to it; with systemd each cgroup is a slice
// besides, so that systemd knows the values and never takes them back.
package cgroup
