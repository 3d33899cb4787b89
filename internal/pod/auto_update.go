package pod

import v1 "k8s.io/api/core/v1"

// AnnotationAutoUpdate asks for updates of the pod's images: AutoUpdateRegistry or
// AutoUpdateLocal. A static pod without it keeps its images.
const AnnotationAutoUpdate = "podstead.io/auto-update"

// The values of AnnotationAutoUpdate, which are podman's.
const (
	// AutoUpdateRegistry compares the digests of tags at their registries.
	AutoUpdateRegistry = "registry"
	// AutoUpdateLocal compares the images that the runtime has under the names.
	AutoUpdateLocal = "local"
)

// AutoUpdate returns how the images of a pod are updated, empty if they are not: those of
// a pod of an API server are that server's. A validated pod has one of the known values.
func AutoUpdate(pod *v1.Pod) string {
	value, ok := pod.Annotations[AnnotationAutoUpdate]
	if !ok || !PolicyFor(SourceOf(pod)).Static {
		return ""
	}
	return value
}
