// Package pleg is the pod lifecycle event generator: it watches what the
// runtime shows of the pods and says what changed.
//
// It owns the relist (every second, or where the runtime streams events, when
// an event hints at a change and once a minute in full) and the pod cache,
// whose only writer it is. Workers wait here for an observation newer than
// their last act.
//
// It reads the runtime through the three calls of Runtime. It never decides
// anything, never acts on a pod, and never takes an event for a status: an
// event is a hint that causes a look.
//
// # How a look stays true
//
// Every observation carries the time at which it was asked for, and shows all
// that happened before. A full list only tells which pods differ from the
// cache; such a pod is then looked at with PodStatus, and only that result
// enters the cache. For one pod at most one look is under way, so the cache
// never goes back. A list that was asked for before the cache's entry can still
// cause a look, but it vouches for nothing.
package pleg
