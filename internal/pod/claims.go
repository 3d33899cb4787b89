package pod

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// ShareClaim reports whether two pods mount the same PersistentVolumeClaim.
func ShareClaim(a, b *v1.Pod) bool {
	if a.Namespace != b.Namespace {
		return false
	}
	return slices.ContainsFunc(a.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil && slices.ContainsFunc(b.Spec.Volumes, func(w v1.Volume) bool {
			return w.PersistentVolumeClaim != nil && w.PersistentVolumeClaim.ClaimName == v.PersistentVolumeClaim.ClaimName
		})
	})
}
