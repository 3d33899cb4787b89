// Package manifest turns the bytes of manifests into static pods and the
// objects that they refer to.
//
// It owns the decoding of YAML and JSON, the identity of a static pod, the sources
// of files, URLs and OCI artifacts with the rule that the last good revision stays in effect,
// the checkpoint that keeps this rule across restarts, PodConfig, which merges
// the full set of each source into ordered changes, and Objects, which holds
// the objects in effect. Defaulting and validation are in manifest/validation.
//
// It reads directories, files, URLs, registries, and its own checkpoint below the root
// directory. It never knows a runtime or a worker, and never serves HTTP.
package manifest
