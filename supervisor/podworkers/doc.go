// Package podworkers runs one goroutine per pod and decides when a pod is synced.
//
// It owns the state machine of a pod's runs, the worker of each UID, the order in
// which pods of one full name run, and the queue of the times at which pods are
// synced again. It reads the pods that sources deliver, and the results of syncs.
// It never decides what a sync does: that is the Syncer's, and so is what a Syncer
// remembers of a pod between two syncs. It never talks to the runtime.
//
// A worker's goroutine starts with the first update of its UID and returns when
// nothing wants the pod and nothing of it is left. A run is one life of the pod
// under that UID; a restart is a new run of the same worker.
//
// The transitions of a run:
//
//	none         update   queued
//	none         orphan   terminating
//	queued       update   queued
//	queued       start    syncing
//	queued       kill     terminating
//	syncing      update   syncing
//	syncing      kill     terminating
//	syncing      ended    terminating
//	syncing      restart  terminating
//	terminating  update   terminating
//	terminating  kill     terminating
//	terminating  restart  terminating
//	terminating  stopped  terminated
//	terminated   update   terminated
//	terminated   kill     terminated
//	terminated   restart  terminated
//	terminated   cleaned  finished
//	finished     update   finished
//	finished     kill     finished
//	finished     restart  queued       (new run)
//	finished     orphan   terminating  (new run)
//	finished     forget   none
//
// A trigger that is not in the table is ignored. An update of a run that is ending
// is kept for the next run. A kill of a run that is ending can only shorten its
// grace period. A restart of a run that is ending is remembered and happens when
// the run has finished.
package podworkers
