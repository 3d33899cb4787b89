// Package pleg is the pod lifecycle event generator: it observes the pods in the
// runtime and reports what changed.
//
// It owns the relist (every second, or where the runtime streams events, when
// an event hints at a change and once a minute in full) and the pod cache,
// whose only writer it is. Workers wait here for an observation newer than
// their last act.
//
// It reads the runtime through the three calls of Runtime. It never decides
// anything, never acts on a pod, and never takes an event for a status: an
// event is a hint that causes an inspection.
//
// # Why an observation is reliable
//
// Every observation carries the time at which it was requested, and shows
// everything that happened before. A relist only finds the pods that differ from
// the cache; such a pod is then inspected with PodStatus, and only that result
// enters the cache. At most one inspection of a pod is in flight, so that the
// cache never goes back. A relist that was requested before the cache's entry can
// still cause an inspection, but it confirms nothing.
package pleg
