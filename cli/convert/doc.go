// Package convert turns Compose files, Quadlet units and the workloads of a cluster into manifests.
//
// It owns the recognition of the input, the check of the result with the daemon's loader, and the
// form of the YAML. The packages below it own the sources, one each, and what they share.
//
// It reads the given texts, and through a podbuild.Host the files that they name. It never writes
// a file and never contacts the daemon.
package convert
