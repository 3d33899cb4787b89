// Package autoupdate finds newer images for pods with the annotation
// podstead.io/auto-update, and asks for their rollout.
//
// It owns the schedule of the checks, the maintenance windows, and the record of what the
// last check of each pod found. It reads the pods, what their containers run, the images of
// the runtime, and for the mode registry the digests of tags at their registries.
//
// It never pulls an image and never starts or ends a pod: the rollout controller prepares
// and replaces, and rolls back what does not become ready. Without an annotated pod it does
// nothing, not even wait for a time.
package autoupdate
