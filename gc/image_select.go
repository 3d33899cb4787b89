package gc

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/podstead/podstead/cri"
)

// ImagePolicy says when images go.
type ImagePolicy struct {
	// High and Low are percent of the image file system: when more than High
	// is used, images are removed until no more than Low is. High 100 never
	// removes for want of room.
	High, Low int
	// Period is the time between two looks at the file system; 0 is 5 minutes.
	Period time.Duration
	// MinAge is how long after its pull an image is left alone.
	MinAge time.Duration
	// MaxAge is how long an image is kept after its last use; 0 is for ever.
	MaxAge time.Duration
}

// ImageState is why an image stays, or that nothing keeps it.
type ImageState string

// The states of images, the first that applies.
const (
	// ImageForeign: others brought it to the runtime, or named it too.
	ImageForeign ImageState = "foreign"
	// ImagePinned: the runtime says that it must stay.
	ImagePinned ImageState = "pinned"
	// ImageSandbox: sandboxes are made of it.
	ImageSandbox ImageState = "sandbox"
	// ImageInUse: a container, running or dead, has it, whosever that is.
	ImageInUse ImageState = "used"
	// ImageWanted: a manifest names it.
	ImageWanted ImageState = "wanted"
	// ImageUnused: nothing keeps it.
	ImageUnused ImageState = "unused"
)

// Image is an image with what is known of its use.
type Image struct {
	cri.StoredImage
	State ImageState
	// Pulled is when this podstead pulled it; zero if it did not.
	Pulled time.Time
	// LastUsed is when a container of this podstead had it last; zero if none
	// had.
	LastUsed time.Time
}

// Name is how people know the image.
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

// since is when the image was needed last.
func (i *Image) since() time.Time {
	if i.LastUsed.After(i.Pulled) {
		return i.LastUsed
	}
	return i.Pulled
}

// RemovableImages are those that nothing keeps and that are old enough, in the
// order in which they go: the one that was used longest ago first, and of
// several the one that was pulled first.
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

// ExpiredImages are those of the removable ones that were not used for too long.
func ExpiredImages(removable []Image, p ImagePolicy, now time.Time) []Image {
	if p.MaxAge <= 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(removable), func(i Image) bool { return now.Sub(i.since()) <= p.MaxAge })
}

// younger reports whether less than age has passed. A time in the future is
// from before the clock was set, and old.
func younger(at time.Time, age time.Duration, now time.Time) bool {
	passed := now.Sub(at)
	return passed >= 0 && passed < age
}

// references finds images by any name that they have.
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

// find is the ID of the image with a name or an ID, as a container or a
// manifest has it.
func (r references) find(name string) (id string, ok bool) {
	if id, ok = r[bareID(name)]; ok {
		return id, true
	}
	id, ok = r[fullName(name)]
	return id, ok
}

// bareID is an image ID without the name of its hash, which some runtimes leave
// out.
func bareID(id string) string { return strings.TrimPrefix(id, "sha256:") }

// fullName is a reference with its host and tag, as runtimes have it.
func fullName(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	return reference.TagNameOnly(named).String()
}
