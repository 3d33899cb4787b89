// Package cgroupvalues converts amounts of a pod to values of the kernel's cgroup
// files.
//
// It owns the conversions, which the cgroup of a pod and the configuration of
// its containers share. It reads its arguments alone. It never writes a cgroup.
package cgroupvalues
