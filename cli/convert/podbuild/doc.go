// Package podbuild builds the pods of a conversion from values of Compose files and Quadlet units.
//
// It owns the names of pods, containers and volumes, and what ports, mounts, health checks,
// users and limits become in a Pod. It reads values that the package docker has parsed. It never
// parses a file of its source.
package podbuild
