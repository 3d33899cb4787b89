// Package cri speaks to the container runtime and decides what a pod needs of it.
//
// It owns the typed client (deadlines, error classes, reconnect), what is
// observed of pods (Pod, PodStatus), the pure Plan from wanted and observed to
// actions, the pure sandbox and container config, and the Syncer that executes
// a plan: images, back-off, start and termination, with the moments at which
// hooks are performed (by a Hooks that it is given). Labels and annotations on
// what it creates let a later daemon recover identity.
//
// It reads the runtime's socket. It never reads manifests, never keeps desired
// state, and never edits what was observed.
package cri
