package pod

import v1 "k8s.io/api/core/v1"

// Annotations of static and mirror pods. They are the kubelet's, so that tools
// which know them keep working.
const (
	// AnnotationSource holds the Source: file, http, oci or api.
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationHash covers the whole object: a changed value is a changed manifest.
	AnnotationHash = "kubernetes.io/config.hash"
	// AnnotationSeen is the RFC 3339 time with nanoseconds at which this
	// revision was first seen.
	AnnotationSeen = "kubernetes.io/config.seen"
	// AnnotationMirror marks a mirror pod; its value is the static pod's hash.
	AnnotationMirror = "kubernetes.io/config.mirror"
)

// AnnotationTemplate hashes the part of the spec that cannot change while the
// pod runs: everything except the containers' images and their cpu and memory
// resources. A revision with the same UID and another template replaces the pod;
// one with the same template is applied in place. The annotation is also on the
// sandbox, so that a daemon that was down during the change can compare them.
const AnnotationTemplate = "podstead.io/template-hash"

// AnnotationImages identifies the images of a pod that runs with other images than its
// manifest names; other pods do not have it. Their AnnotationHash is the same.
const AnnotationImages = "podstead.io/images-hash"

// Source names where a pod comes from. Its values are those that the kubelet
// writes into AnnotationSource, and SourceOCI. They are part of the UIDs of pods.
type Source string

// The sources of pods.
const (
	SourceFile Source = "file"
	SourceHTTP Source = "http"
	// SourceOCI is an artifact in a registry. The kubelet has no such source.
	SourceOCI Source = "oci"
	SourceAPI Source = "api"
)

// SourceOf returns the source in the pod's annotation, empty if it has none.
func SourceOf(pod *v1.Pod) Source { return Source(pod.Annotations[AnnotationSource]) }

// IsAPI reports whether an API server has bound the pod to this node. All other
// pods are static.
func IsAPI(pod *v1.Pod) bool { return SourceOf(pod) == SourceAPI }

// FullName returns namespace/name, which identifies a pod among those that run at
// the same time. Revisions of one manifest share it and differ in their UID.
func FullName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// IsTerminal reports whether a phase is final: Succeeded or Failed.
func IsTerminal(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }
