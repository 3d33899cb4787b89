package manifest

// Annotations that this package puts on a pod. The first three are the
// kubelet's, so that tools which know them keep working.
const (
	// AnnotationSource holds the Source: file, http or api.
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationHash covers the whole object: a changed value is a changed manifest.
	AnnotationHash = "kubernetes.io/config.hash"
	// AnnotationSeen is the RFC 3339 time with nanoseconds at which this
	// revision was first seen.
	AnnotationSeen = "kubernetes.io/config.seen"
	// AnnotationMirror marks a mirror pod; its value is the static pod's hash.
	AnnotationMirror = "kubernetes.io/config.mirror"
	// AnnotationTemplate hashes the part of the spec that cannot be changed
	// while the pod runs: all of it but the containers' images and their cpu
	// and memory resources. Two revisions under one UID with different
	// templates replace each other; with equal ones the change is applied in
	// place. It stays on the sandbox, so that a daemon that was away when a
	// manifest changed can tell.
	AnnotationTemplate = "podstead.io/template-hash"
)
