// Package rollout decides which revision of each static pod is in effect.
//
// It is between manifest.PodConfig, whose updates it reads, and the sync loop, for
// which it is the PodConfig. It owns the choice between the revision of the manifest,
// the one that runs, and earlier ones. Pods of an API server pass through unchanged.
// It never talks to the runtime and never starts or stops a pod: it asks the node, an
// interface, to prepare a revision, and lets updates through.
package rollout
