package rollout

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
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
func (c *Controller) AutoUpdated() []ImageTarget {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []ImageTarget
	for _, name := range slices.Sorted(maps.Keys(c.byName)) {
		r := c.byName[name]
		if _, ok := r.manifest.Annotations[podinfo.AnnotationAutoUpdate]; !ok {
			continue
		}
		t := ImageTarget{Manifest: r.manifest, UID: r.current.pod.UID, Busy: r.busy(), Images: maps.Clone(r.current.images)}
		if r.candidate != nil {
			t.Candidate = maps.Clone(r.candidate.images)
		}
		if rejected := r.choice.rejected; rejected != nil && rejected.Revision == withImages(r.manifest, r.choice.images).id {
			t.Rejected = maps.Clone(r.choice.images)
		}
		list = append(list, t)
	}
	return list
}

// busy says why the images of a pod cannot be changed now; empty if they can. mu is held.
func (r *podRollout) busy() string {
	switch {
	case r.state == Preparing || r.state == RollingBack:
		return "another revision is prepared"
	case r.state == Progressing:
		return "the revision in effect is not Ready yet"
	case r.choice.pinned != nil:
		return "an earlier revision is in effect on request"
	case r.choice.rejected != nil && r.choice.rejected.Revision == revisionID(r.manifest):
		return "the revision of the manifest was rolled back"
	}
	return ""
}

// UpdateImages is SetImages with the exact images that the containers run now, to which a
// rollback returns: a tag may have moved by then.
func (c *Controller) UpdateImages(fullName string, images, previous map[string]string) error {
	images, previous = maps.Clone(images), maps.Clone(previous)
	return c.call(func() error {
		r := c.byName[fullName]
		if r == nil {
			return fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
		}
		before := r.lastGood
		if before != nil && before.id == r.current.id && len(before.images) == 0 && len(previous) > 0 && withImages(r.manifest, images).id != r.current.id {
			c.locked(func() { r.lastGood = withImages(r.manifest, previous) })
		}
		err := c.setImages(fullName, images)
		if err != nil {
			c.locked(func() { r.lastGood = before })
		}
		return err
	})
}
