// Package volume makes the volumes of a pod on this host and takes them down.
//
// It owns the folder of each pod's volumes below its root, what it mounts there
// (memory for secrets and for emptyDir in memory, network file systems, parts of
// volumes), and the folders of claims, which outlive every pod. It reads the pod,
// the objects it is given, and /proc/self/mountinfo.
//
// It never looks an object up by itself, never touches what a hostPath names once
// it is there, never deletes across a mount point or through a link, never takes
// down a mount that it did not make, and never follows a name out of its root, or
// a path in a volume out of that volume. Sizes on disk are not its business: who
// evicts pods looks at them.
package volume
