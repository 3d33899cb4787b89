// Package supervisor keeps exactly the wanted pods running.
//
// The road through it:
//
//	PodConfig ── PodUpdate ──▶ syncLoop ──▶ podWorkers (one goroutine a pod)
//	                             ▲              │ syncPod
//	           PLEG wake-ups ────┤              │ syncTerminatingPod
//	           probe results ────┤              │ syncTerminatedPod
//	           due work ─────────┤              ▼
//	           housekeeping ─────┘         cri.Syncer ──▶ runtime
//	                                            │
//	status store ◀── status.Generate ◀── pod cache ◀── PLEG (observes)
//
// It owns the wanted pods, the workers and their states (see transitions),
// the decision what may be cleaned up, and the folders of pods under the root.
// It reads what the PLEG observed and never edits it: after an act it asks for
// a relist and waits until the cache is newer than the act.
//
// It never speaks gRPC, parses a manifest or formats HTTP. Nothing it owns
// ends a pod because the daemon stops: cancelling Run stops the supervising.
//
// Two things differ from the kubelet on purpose. A pod that waits for its
// name is woken when the name is free and polls for nothing; and there is no
// tick when nothing is due, so that an idle node costs nothing.
package supervisor
