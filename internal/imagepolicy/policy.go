package imagepolicy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// The modes, with the kubelet's names.
const (
	// NeverVerify lets every pod use every image that is present.
	NeverVerify = "NeverVerify"
	// NeverVerifyPreloaded verifies images that the node has pulled, and no others. It
	// is the default.
	NeverVerifyPreloaded = "NeverVerifyPreloadedImages"
	// NeverVerifyAllowlisted verifies images that are not on the allowlist.
	NeverVerifyAllowlisted = "NeverVerifyAllowlistedImages"
	// AlwaysVerify verifies every image.
	AlwaysVerify = "AlwaysVerify"
)

// Policy is a mode with its allowlist. The zero value is NeverVerifyPreloaded.
type Policy struct {
	Mode string
	// Allowlist are image names without tag and digest, or prefixes that end in /*, all
	// as CheckPattern accepts them. They apply to NeverVerifyAllowlisted only.
	Allowlist []string
}

// Verifies reports whether a pod needs credentials for an image that is present. image is
// the name in the pod; pulled reports that this node has pulled the image, or may have.
func (p Policy) Verifies(image string, pulled bool) bool {
	switch p.Mode {
	case NeverVerify:
		return false
	case NeverVerifyAllowlisted:
		return !p.allows(image)
	case AlwaysVerify:
		return true
	}
	return pulled
}

// allows compares names as the pod and the list have them, like the kubelet: what a short
// name means is the runtime's decision.
func (p Policy) allows(image string) bool {
	name := bareName(image)
	return slices.ContainsFunc(p.Allowlist, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return name == pattern
	})
}

// bareName returns an image reference without its tag and digest.
func bareName(image string) string {
	parsed, err := reference.Parse(image)
	if err != nil {
		return image
	}
	if digested, ok := parsed.(reference.Digested); ok {
		image = strings.TrimSuffix(image, "@"+digested.Digest().String())
	}
	if tagged, ok := parsed.(reference.Tagged); ok {
		image = strings.TrimSuffix(image, ":"+tagged.Tag())
	}
	return image
}

// The faults of patterns.
var (
	errPatternForm = errors.New("must be the name of an image, such as registry.example.com/team/app, or of all below " +
		"a path, such as registry.example.com/team/*")
	errPatternExact = errors.New("must have no tag and no digest, as it applies to all of them")
)

// CheckPattern returns an error for what is not a pattern of an allowlist.
func CheckPattern(pattern string) error {
	name, prefix := strings.CutSuffix(pattern, "/*")
	if name == "" || strings.TrimSpace(pattern) != pattern || strings.Contains(name, "*") {
		return fmt.Errorf("%q: %w", pattern, errPatternForm)
	}
	if prefix {
		return nil
	}
	switch _, err := reference.Parse(name); {
	case err != nil:
		return fmt.Errorf("%q: %w (%w)", pattern, errPatternForm, err)
	case bareName(name) != name:
		return fmt.Errorf("%q: %w", pattern, errPatternExact)
	}
	return nil
}
