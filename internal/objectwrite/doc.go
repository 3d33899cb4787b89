// Package objectwrite has the values that travel from the Kubernetes API of the daemon to the writer of the manifests,
// and back: a change goes down as a patch with what its client was shown, and nothing calls back up.
//
// It owns the requests, their results and the reasons of their errors, and View: how an object that a manifest declares
// differs from what clients see. It reads nothing but its arguments, and never changes them.
package objectwrite
