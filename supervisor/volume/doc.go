// Package volume makes the volumes of a pod on this host and takes them down.
//
// It owns the folder of each pod's volumes below its root: emptyDir as a plain
// folder, while a hostPath is only checked or made. It reads the pod and
// /proc/self/mountinfo.
//
// It never mounts, never touches what a hostPath names once it is there, never
// deletes across a mount point, and never follows a name out of its root.
package volume
