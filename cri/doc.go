// Package cri talks to the container runtime and decides what a pod needs from
// it.
//
// It owns the typed client (deadlines, error classes, reconnect), the observed
// state of pods (Pod, PodStatus), the pure Plan from desired and observed state to
// actions, the pure sandbox and container config, and the Syncer that executes a
// plan: images, back-off, start and termination, and the points at which
// lifecycle hooks run (through the Hooks that it is given). Labels and
// annotations on the objects that it creates let a later daemon recover their
// identity.
//
// It reads the runtime's socket. It never reads manifests, never keeps desired
// state, and never edits observed state.
package cri
