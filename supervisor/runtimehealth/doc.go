// Package runtimehealth owns what is known of the health of the container runtime.
// It reads the runtime's conditions and version, and the health of the PLEG, and
// keeps the last response. It never changes the runtime: the sync loop decides what
// follows from a change.
package runtimehealth
