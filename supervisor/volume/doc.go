// Package volume sets up the volumes of a pod on this host and removes them.
//
// It owns the directory of each pod's volumes below its root, what it mounts there
// (tmpfs for Secrets and for emptyDir in memory, network file systems, subpaths of
// volumes), and the directories of claims, which outlive every pod. It reads the pod,
// the objects that it is given, and /proc/self/mountinfo.
//
// It never looks up an object by itself, never changes what a hostPath names once
// that exists, never deletes across a mount point or through a link, never unmounts
// what it did not mount, and never follows a name out of its root, or a path in a
// volume out of that volume. It limits the sizes of claims and of emptyDirs on disk with quotas of the
// file system, and never evicts a pod that exceeds one.
package volume
