// Package hostports is the ports of the host that a pod's sandbox maps, in the list of what a pod needs of
// its node.
//
// It owns when the host's rules are made for them, and the event about a process of the host that listens on
// one. It reads the socket tables of the kernel. It never decides which pod has a port: that is one decision
// with the amounts that pods request, in the reservations, because a pod that waits for both takes its turn
// for both at once.
package hostports
