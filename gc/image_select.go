package gc

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/podstead/podstead/cri"
)

// ImagePolicy determines when images are removed.
type ImagePolicy struct {
	// High and Low are percentages of the image file system: when more than High
	// is used, images are removed until at most Low is. High 100 never removes
	// images to free space.
	High, Low int
	// Period is the time between two checks of the file system; 0 means 5
	// minutes.
	Period time.Duration
	// MinAge is how long after its pull an image is not removed.
	MinAge time.Duration
	// MaxAge is how long an image is kept after its last use; 0 means forever.
	MaxAge time.Duration
}

// ImageState is why an image is kept, or that it is not needed.
type ImageState string

// The states of images, the first that applies.
const (
	// ImageForeign: another client pulled or tagged it.
	ImageForeign ImageState = "foreign"
	// ImagePinned: the runtime requires it.
	ImagePinned ImageState = "pinned"
	// ImageSandbox: sandboxes use it.
	ImageSandbox ImageState = "sandbox"
	// ImageInUse: a container of any client, running or dead, uses it.
	ImageInUse ImageState = "used"
	// ImageDesired: a manifest names it.
	ImageDesired ImageState = "wanted"
	// ImageUnused: it is not needed.
	ImageUnused ImageState = "unused"
)

// Image is an image with its use.
type Image struct {
	cri.StoredImage
	State ImageState
	// Pulled is when this podstead pulled it; zero if it did not.
	Pulled time.Time
	// LastUsed is when a container of this podstead last used it; zero if none
	// did.
	LastUsed time.Time
}

// Name returns the name shown to users.
func (i *Image) Name() string {
	for _, names := range [][]string{i.Tags, i.Digests} {
		if len(names) > 0 {
			return names[0]
		}
	}
	return i.ID
}

// Has reports whether the image has a name, as a manifest may write it, or an ID.
func (i *Image) Has(name string) bool {
	_, ok := indexImages([]cri.StoredImage{i.StoredImage}).find(name)
	return ok
}

// since returns when the image was last needed.
func (i *Image) since() time.Time {
	if i.LastUsed.After(i.Pulled) {
		return i.LastUsed
	}
	return i.Pulled
}

// RemovableImages returns the images that are not needed and old enough, in the
// order of removal: least recently used first, and of equal ones the one that was
// pulled first.
func RemovableImages(images []Image, p ImagePolicy, now time.Time) []Image {
	var list []Image
	for _, i := range images {
		if i.State == ImageUnused && !younger(i.Pulled, p.MinAge, now) {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b Image) int {
		return cmp.Or(a.since().Compare(b.since()), a.Pulled.Compare(b.Pulled), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// ExpiredImages returns the removable images that were not used for too long.
func ExpiredImages(removable []Image, p ImagePolicy, now time.Time) []Image {
	if p.MaxAge <= 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(removable), func(i Image) bool { return now.Sub(i.since()) <= p.MaxAge })
}

// younger reports whether less than age has passed. A time in the future dates
// from before the clock was set, and is old.
func younger(at time.Time, age time.Duration, now time.Time) bool {
	passed := now.Sub(at)
	return passed >= 0 && passed < age
}

// references finds images by any of their names.
type references map[string]string // ID by name

func indexImages(images []cri.StoredImage) references {
	index := references{}
	for _, i := range images {
		index[bareID(i.ID)] = i.ID
		for _, name := range slices.Concat(i.Tags, i.Digests) {
			index[fullName(name)] = i.ID
		}
	}
	return index
}

// find returns the ID of the image with a name or an ID, as a container or a
// manifest has it.
func (r references) find(name string) (id string, ok bool) {
	if id, ok = r[bareID(name)]; ok {
		return id, true
	}
	id, ok = r[fullName(name)]
	return id, ok
}

// bareID returns an image ID without the hash algorithm, which some runtimes
// omit.
func bareID(id string) string { return strings.TrimPrefix(id, "sha256:") }

// fullName returns a reference with its host and tag, as runtimes have it. With a digest it
// has no tag: the digest decides.
func fullName(name string) string {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return name
	}
	return named.String()
}
