// Package manifest turns bytes into pods.
//
// It owns the first stretch of the road: decoding YAML and JSON, API
// defaulting, validation, the identity of a static pod, the file and URL
// sources with their rule that the last good revision wins, the checkpoint
// that keeps that rule across restarts, and PodConfig, which merges each
// source's full set into ordered changes.
//
// It reads folders, files and URLs, and its own checkpoint under the root
// folder. It never knows a runtime or a worker, and never serves anything.
package manifest
