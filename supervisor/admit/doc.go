// Package admit decides whether a pod may run on this node.
//
// It owns the checks of a pod against the node, each a pure function with the
// kubelet's reason and a message for users; and Reservations, which record the
// resources and host ports that pods hold, and which waiting pod is next. It reads
// pods with their classes resolved, the pods that the runtime shows, and what
// FindHost finds out about the host once, when the daemon starts. It never ends a
// pod, not even a victim of preemption: it names victims, and its caller ends them.
// It never calls the runtime.
package admit
