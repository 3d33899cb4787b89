package cri

import (
	"fmt"

	"github.com/distribution/reference"
)

// imageName is an image reference with :latest appended if it has neither tag
// nor digest. A short name is left short: how it is completed is the runtime's
// business, as for the kubelet.
func imageName(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image %q is not a valid reference (%w): write it as HOST/REPOSITORY:TAG, in lower case but for the tag", image, err)
	}
	if reference.IsNameOnly(named) {
		return image + ":latest", nil
	}
	return image, nil
}
