package rollout

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// revision is one content of a pod. It does not change.
type revision struct {
	// id is its short hash, which is unique among those of a pod.
	id  string
	pod *v1.Pod
	// manifestUID is the UID that the manifest's pod has, from which this one is made:
	// that of pod itself, unless images differ.
	manifestUID types.UID
	// images are those that differ from the manifest's, by container.
	images map[string]string
}

// newRevision returns the revision of a manifest.
func newRevision(pod *v1.Pod) *revision {
	return &revision{id: revisionID(pod), pod: pod, manifestUID: pod.UID}
}

// revisionID identifies a revision: the UID alone does not, if the manifest sets it,
// and the hash alone does not cover the source.
func revisionID(pod *v1.Pod) string {
	return shortHash(string(pod.UID), pod.Annotations[podinfo.AnnotationHash])
}

// shortHash returns 10 hex digits over texts.
func shortHash(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:5])
}

// withImages returns the manifest's revision with other images in its containers. It
// has a UID of its own, so that both never run at once, and the manifest's hash.
func withImages(pod *v1.Pod, images map[string]string) *revision {
	changed := pod.DeepCopy()
	used := map[string]string{}
	texts := []string{string(pod.UID)}
	for c := range podinfo.EachContainer(&changed.Spec, podinfo.SpecContainers) {
		if image := images[c.Name]; image != "" && image != c.Image {
			used[c.Name] = image
			texts = append(texts, c.Name, image)
			c.Image = image
			if c.ImagePullPolicy == v1.PullAlways && strings.Contains(image, "sha256:") {
				// A digest names one image forever: a registry that is away changes nothing.
				c.ImagePullPolicy = v1.PullIfNotPresent
			}
		}
	}
	if len(used) == 0 {
		return newRevision(pod)
	}
	h := sha256.New()
	for _, text := range texts {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	changed.UID = types.UID(hex.EncodeToString(h.Sum(nil)[:16]))
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[podinfo.AnnotationImages] = string(changed.UID)
	return &revision{id: revisionID(changed), pod: changed, manifestUID: pod.UID, images: used}
}

// sameInstance reports whether one revision becomes the other in what runs, without an
// image that could be missing: a resize, or other labels.
func sameInstance(a, b *v1.Pod) bool {
	return a.UID == b.UID && podinfo.FullName(a) == podinfo.FullName(b) &&
		a.Annotations[podinfo.AnnotationTemplate] == b.Annotations[podinfo.AnnotationTemplate] &&
		slices.Equal(slices.Collect(podinfo.Images(&a.Spec)), slices.Collect(podinfo.Images(&b.Spec)))
}

// imagesOf returns the images of a pod's containers by name.
func imagesOf(pod *v1.Pod) map[string]string {
	images := map[string]string{}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		images[c.Name] = c.Image
	}
	return images
}

// source returns the source of a revision's pod.
func (r *revision) source() manifest.Source { return podinfo.SourceOf(r.pod) }

// entry is one revision in the history of a pod.
type entry struct {
	Revision string            `json:"revision"`
	UID      types.UID         `json:"uid"`
	Time     time.Time         `json:"time"`
	Ready    bool              `json:"ready,omitempty"`
	Rejected string            `json:"rejected,omitempty"`
	Images   map[string]string `json:"images,omitempty"`
	// Changed are the images that differ from the manifest's, ManifestUID its UID.
	Changed     map[string]string `json:"changed,omitempty"`
	ManifestUID types.UID         `json:"manifestUID,omitempty"`
}

// maxHistory is how many revisions of a pod are kept, as of a Deployment.
const maxHistory = 10

// history are the revisions that were in effect, the newest last.
type history []entry

// index returns the position of a revision, -1 if it is not there.
func (h history) index(id string) int {
	return slices.IndexFunc(h, func(e entry) bool { return e.Revision == id })
}

// withRevision returns the history with a revision that comes into effect, without the oldest
// ones beyond the limit that are not in keep.
func (h history) withRevision(r *revision, now time.Time, keep ...string) history {
	e := entry{Revision: r.id, UID: r.pod.UID, Images: imagesOf(r.pod), Changed: maps.Clone(r.images),
		ManifestUID: r.manifestUID}
	out := slices.Clone(h)
	if i := out.index(r.id); i >= 0 {
		e.Ready = out[i].Ready
		out = slices.Delete(out, i, i+1)
	}
	e.Time = now
	out = append(out, e)
	for i := 0; len(out) > maxHistory && i < len(out)-1; {
		if slices.Contains(keep, out[i].Revision) {
			i++
			continue
		}
		out = slices.Delete(out, i, i+1)
	}
	return out
}

// mark returns the history with a change of one entry.
func (h history) mark(id string, change func(*entry)) history {
	out := slices.Clone(h)
	if i := out.index(id); i >= 0 {
		change(&out[i])
	}
	return out
}
