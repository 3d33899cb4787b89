// Package explain documents the fields of a Pod.
//
// It owns the walk over the fields of the Pod type, their defaults, and the text that
// reports whether podstead supports a field, ignores it or rejects it.
//
// It reads the API types and the field table of package manifest, and never a daemon.
package explain
