// Package quadlet turns the units of Podman's Quadlet into pods.
//
// It owns the syntax of unit files, the keys of each section, and what they become. It reads the
// given units, and through a podbuild.Host the files that they name. It never validates the
// result: the caller does.
package quadlet
