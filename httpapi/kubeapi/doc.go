// Package kubeapi serves the part of the Kubernetes API that a single node can respond:
// discovery, get, list, watch and tables of its pods and other objects, for kubectl and
// client-go, and writes of the objects that manifests declare.
//
// It owns the resource versions and, for each resource, a cache of the current objects
// with the latest changes, from which watches are served. It reads the snapshots of its
// Sources, and never changes an object itself: it works out what a client wants it to be, and
// passes that to its Writer.
package kubeapi
