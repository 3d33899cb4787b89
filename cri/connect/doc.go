// Package connect chooses the container runtime that runs the pods, and connects to it.
//
// It owns the order of the choice, and what keeps a pod from running twice: the record of the runtime that was used
// before, the check for pods that were left on it, and what follows from a kubelet on the same runtime. It reads the
// sockets of the host and what the runtimes run. It never stops a pod.
package connect
