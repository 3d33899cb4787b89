// Package kubeapi is the part of the Kubernetes API that one box can answer:
// discovery, get, list, watch and tables of what it runs, for kubectl and for
// client-go. It is read-only; a write is answered with what to edit instead.
//
// It owns the resource versions and, for each resource, a cache of the newest
// objects with the last changes, out of which watches are served. It reads the
// snapshots of the Sources it is given, and never changes anything.
package kubeapi
