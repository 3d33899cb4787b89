package rollout

import (
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
	// Busy reports why its images cannot be changed now; empty if they can.
	Busy string
	// Images are those in effect that an update has set, by container. Candidate are those of
	// an update that is prepared and has not replaced the pod yet, Rejected those of the last
	// one that was rolled back; nil for none.
	Images, Candidate, Rejected map[string]string
}

// AutoUpdated returns the pods with the annotation podstead.io/auto-update, sorted by full
// name. They are shared and must not be written to.
func (c *Controller) AutoUpdated() (targets []ImageTarget) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name, r := range c.byName {
		if podinfo.AutoUpdate(r.manifest) != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		targets = append(targets, imageTarget(c.byName[name]))
	}
	return targets
}

// imageTarget describes a rollout to the owner of image updates. mu is held.
func imageTarget(r *podRollout) ImageTarget {
	t := ImageTarget{Manifest: r.manifest, UID: r.current.pod.UID}
	if r.current.manifestUID == r.manifest.UID {
		t.Images = maps.Clone(r.current.images)
	}
	rejected := r.choice.rejected
	rejectsImages := rejected != nil && len(r.choice.images) > 0 &&
		rejected.Revision == withImages(r.manifest, r.choice.images).id
	if rejectsImages {
		t.Rejected = maps.Clone(r.choice.images)
	}
	switch {
	case r.awaitsPod:
		t.Busy = "its manifest changes"
	case r.state == Stable, r.state == RolledBack && rejectsImages:
	case r.state == Preparing && r.candidate != nil && isImageUpdate(r):
		t.Candidate = maps.Clone(r.candidate.images)
		if t.Candidate == nil {
			t.Candidate = map[string]string{}
		}
	case r.state == Preparing:
		t.Busy = "another revision of its manifest is prepared"
	case r.state == Undone:
		t.Busy = "an earlier revision is in effect on request; podstead rollout retry ends that"
	case r.state == RolledBack:
		t.Busy = "its manifest was rolled back; change it, or use podstead rollout retry"
	default:
		t.Busy = "a rollout is in progress"
	}
	return t
}

// isImageUpdate reports whether the candidate differs from the revision in effect in images
// that an update has set, and in nothing else.
func isImageUpdate(r *podRollout) bool {
	return r.choice.pinned == nil && r.current.manifestUID == r.manifest.UID &&
		r.candidate.manifestUID == r.manifest.UID &&
		r.current.pod.Annotations[podinfo.AnnotationHash] == r.manifest.Annotations[podinfo.AnnotationHash]
}

// UpdateImages is SetImages for an update whose owner knows what the containers run now:
// previous are their exact images. A rollback returns to those, since the name in the manifest
// may mean the new image by then.
func (c *Controller) UpdateImages(fullName string, images, previous map[string]string) error {
	images, previous = maps.Clone(images), maps.Clone(previous)
	return c.call(func() error { return c.setImages(fullName, images, previous) })
}

// exactRevision returns the revision in effect with the exact images that it runs, if another
// one replaces it that an update has made; else nil.
func (r *podRollout) exactRevision(next *revision) *revision {
	if !r.good || len(r.choice.previous) == 0 || len(next.images) == 0 || r.current.manifestUID != r.manifest.UID ||
		next.manifestUID != r.manifest.UID {
		return nil
	}
	images := maps.Clone(r.choice.previous)
	maps.Copy(images, r.current.images)
	return withImages(r.manifest, images)
}
