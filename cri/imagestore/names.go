package imagestore

import (
	"strings"

	"github.com/distribution/reference"
)

// named returns the ID that a name had when an addition began, and whether the addition brings that name. Its own names
// are as in manifests and archives; a short one is that of every registry, since the runtime chooses it.
func (r *recorded) named(name string) (before string, ok bool) {
	if before, ok = r.Images[name]; ok {
		return before, true
	}
	for own, before := range r.Images {
		if sameName(own, name) {
			return before, true
		}
	}
	return "", false
}

// sameName reports whether a name is own, or a longer form of it.
func sameName(own, name string) bool {
	if longName(own) == longName(name) {
		return true
	}
	first, _, _ := strings.Cut(own, "/")
	short := first == own || !strings.ContainsAny(first, ".:") && first != "localhost"
	return short && strings.HasSuffix(name, "/"+own)
}

// longName returns a name with its registry, in the form that containerd completes it to.
func longName(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	return reference.TagNameOnly(named).String()
}
