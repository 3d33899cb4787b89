// Package cpus assigns exclusive CPUs to containers: the static policy of the kubelet's CPU
// manager.
//
// It owns the assignments, their file, and the shared pool, which are the CPUs of all other
// containers. It reads the topology of the CPUs in sysfs. It sets the CPUs of running
// containers through the function that its caller gives it, and never starts or ends a
// container. With the policy none nothing of it runs.
package cpus
