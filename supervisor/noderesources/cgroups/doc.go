// Package cgroups is the pods' cgroups in the list of what a pod needs of its node.
//
// It owns when the cgroup of a pod is made, updated and removed, and which cgroups may come back because
// a call of the runtime goes on after the end of its pod. It reads the last observation of the runtime,
// and never touches the cgroup file system itself: that is the manager's, through the interface that it
// declares.
package cgroups
