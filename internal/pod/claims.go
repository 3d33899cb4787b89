package pod

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// AnnotationVolumeGroup of a PersistentVolume is the number of a supplemental group with which pods
// use it.
const AnnotationVolumeGroup = "pv.beta.kubernetes.io/gid"

// ClaimOf returns the name of the PersistentVolumeClaim of a volume, empty if it has none. The claim
// of a generic ephemeral volume is named after the pod and the volume.
func ClaimOf(pod *v1.Pod, volume *v1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return pod.Name + "-" + volume.Name
	}
	return ""
}

// ShareClaim reports whether two pods mount the same PersistentVolumeClaim.
func ShareClaim(a, b *v1.Pod) bool {
	if a.Namespace != b.Namespace {
		return false
	}
	for i := range a.Spec.Volumes {
		claim := ClaimOf(a, &a.Spec.Volumes[i])
		if claim != "" && slices.ContainsFunc(b.Spec.Volumes, func(w v1.Volume) bool { return ClaimOf(b, &w) == claim }) {
			return true
		}
	}
	return false
}
