package pod

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// Images iterates over the images that a pod names: those of its containers, as
// they are written, and those of its image volumes.
func Images(spec *v1.PodSpec) iter.Seq[string] {
	return func(yield func(string) bool) {
		for c := range EachContainer(spec, AllContainers) {
			if !yield(c.Image) {
				return
			}
		}
		for i := range spec.Volumes {
			if source := spec.Volumes[i].Image; source != nil && !yield(source.Reference) {
				return
			}
		}
	}
}
