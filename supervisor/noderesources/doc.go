// Package noderesources is what a pod needs of its node, as one ordered list.
//
// It owns the order of calls: when what is asked of which resource, who gives back what if one refuses,
// and the verdict of a refusal. A pod that starts takes its turn in the queues (Queue) and then what it
// can have without waiting (Reserve); what may take its time is prepared right before the runtime acts
// (Prepare), and adds to the inputs of the sandbox and of the containers (Contribute). A pod counts as
// stopped after Unprepare, and all of it is given back by Release and in the end forgotten by Forget;
// these three go backwards. Preview walks the same list for a revision while the one that it replaces
// runs, so that an edit that cannot start ends nothing: a resource cannot be in the list without it.
//
// It reads nothing of the pods but what it hands on. It never knows what an entry is, never starts,
// ends or shows a pod, and keeps no state of one: entries keep theirs by UID. A resource that the node
// does not have is not in the list.
//
// The list is built by one function of the daemon, in this order: reservations, exclusive CPUs and
// memory, devices, resource claims, cgroup, volumes, host ports, probes, logs.
// docs/howto/node-resource.md reports how to add one.
package noderesources
