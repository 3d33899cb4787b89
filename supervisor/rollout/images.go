package rollout

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ImageTarget is a static pod whose images are updated.
type ImageTarget struct {
	// Manifest is the pod as its manifest declares it.
	Manifest *v1.Pod
	// UID is that of the revision in effect, empty if none is.
	UID types.UID
	// Busy says why its images cannot be changed now; empty if they can.
	Busy string
	// Images are those in effect that an update has set, by container. Candidate are those of
	// an update that is prepared and has not replaced the pod yet, Rejected those of the last
	// one that was rolled back; nil for none.
	Images, Candidate, Rejected map[string]string
}

// AutoUpdated returns the pods with the annotation podstead.io/auto-update, sorted by full
// name.
func (c *Controller) AutoUpdated() []ImageTarget { return nil }

// UpdateImages is SetImages with the exact images that the containers run now, to which a
// rollback returns.
func (c *Controller) UpdateImages(fullName string, images, previous map[string]string) error {
	return c.SetImages(fullName, images)
}
