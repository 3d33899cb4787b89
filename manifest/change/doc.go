// Package change changes objects in the manifest directory, for clients of the HTTP API and for the commands. Nothing
// else does.
//
// It owns the rules of such a change, a Set: an object that comes from elsewhere is refused, and a manifest with a
// fault is not written. A Writer makes those of the API: what a client changes of an object is transferred to its
// document. It repeats a change that another writer has overtaken, so that both take effect. It records who has changed
// what, and gives the pod of a removed manifest the grace period that the client asks for.
//
// It reads the manifest directory and what the daemon has read of it. Where and how a document is
// written is decided in manifest/edit. It never starts or ends a pod.
package change
