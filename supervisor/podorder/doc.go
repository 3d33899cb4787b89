// Package podorder owns the order in which static pods start and end: that of their
// annotation podstead.io/depends-on. A pod is started when the pods that it depends on
// are Ready or have Succeeded, and pods that end together end before those that they
// depend on.
//
// It reads the desired pods, their published statuses and the pods that are
// terminating. It never starts or ends anything, and nothing in it polls: who waits is
// notified when what it waits for has changed.
//
// It is about starts and common ends alone. A dependency that fails, restarts, is
// edited or removed changes nothing for a pod that runs.
package podorder
