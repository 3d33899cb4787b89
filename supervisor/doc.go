// Package supervisor keeps exactly the desired pods running.
//
// The path of the data:
//
//	manifest.PodConfig ── PodUpdate{ADD UPDATE REMOVE RECONCILE DELETE RESTORE} ──▶ syncLoop
//	                                                         PLEG events ─────────▶   │
//	                                                         probe results ───────▶   │
//	                                                         due syncs ───────────▶   │
//	                                                         housekeeping ────────▶   ▼
//	                              podworkers.Workers: one goroutine per pod
//	                              syncing ▶ terminating ▶ terminated ▶ finished
//	                                                   │ podSyncer.Sync
//	                                                   ▼
//	        syncAttempt  ·  terminatingAttempt  ·  terminatedAttempt  ·  finishedAttempt
//	podinputs.Resolver ──────────▶│
//	noderesources.List ──────────▶│ numbered steps
//	                              ▼
//	                         cri.Syncer ──▶ container runtime
//	                                            │
//	              pleg.PLEG observes ◀──────────┘
//	                └▶ pod cache: an attempt waits for an observation newer than its last act
//	statusPublisher ── status.Generate (spec × observed × probes) ──▶ record ▶ store ▶ httpapi, cluster
//
// It owns the desired pods, the attempts of a sync, what a worker remembers of a run
// (runState), the decision what may be cleaned up, and the directories of pods below
// the root. It reads what the PLEG observed and never edits it: after an act it
// requests an observation and waits until the cache is newer than the act.
//
// It never speaks gRPC, parses a manifest or formats HTTP, and it knows no node
// services: they are registered before Run (AddGate, SetRestartPolicy, OnObserved), and
// what a pod needs of the node is the list of Config.Resources.
// Nothing in it ends a pod because the daemon stops: cancelling Run only stops the
// supervision.
//
// What depends on a pod's source is in its internal/pod.SourcePolicy.
//
// Two things differ from the kubelet on purpose. A pod that waits for its name is
// notified when the name is free and polls for nothing; and there is no ticker, so
// that an idle node uses no CPU.
package supervisor
