package cri

import (
	"fmt"

	"github.com/distribution/reference"
)

// imageName returns an image reference, with :latest appended if it has neither
// tag nor digest. A short name stays short: the runtime completes it, as with the
// kubelet.
func imageName(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image %q is not a valid reference (%w): write it as HOST/REPOSITORY:TAG, in lower case "+
			"except for the tag", image, err)
	}
	if reference.IsNameOnly(named) {
		return image + ":latest", nil
	}
	return image, nil
}
