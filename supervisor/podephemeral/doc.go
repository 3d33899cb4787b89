// Package podephemeral owns the ephemeral containers of static pods: those that clients of the API
// have added to a run of a pod, to debug it. A manifest cannot have them.
//
// Each pod that has any has a file. It is written before a client is served, so that a restart
// or an upgrade of the daemon keeps them, and removed when the run of the pod ends for a new one,
// or the pod is removed: they are part of what runs, and not of the revision. With returns a pod
// with its ephemeral containers.
//
// It reads its own files when it is opened, and the patches of clients. The validation of what a client adds is that of
// manifest/validation. It never starts or stops a container.
package podephemeral
