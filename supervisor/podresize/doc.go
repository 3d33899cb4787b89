// Package podresize changes the resources of running containers to those that their pod wants
// now, as far as the node has the capacity.
//
// It owns the decision which resources are allocated to a pod and its containers while a resize
// waits, is in progress or fails, and the events about it. It reads what was observed of the
// pod. It reserves capacity through package admit, and updates the cgroup of the pod through an
// interface; it never calls the runtime: the changes of containers are returned, and executed
// with the sync of the pod. What has to outlive the daemon is in the record of the run, which
// its owner saves.
package podresize
