package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// resolveUser determines what in a container's security context depends on its
// image and on this host. An error needs action by the user.
func (t *transaction) resolveUser(ctx context.Context, c *v1.Container, imageRef string) (user, error) {
	if err := t.checkSeccompProfile(c); err != nil {
		return user{}, err
	}
	var image *runtimeapi.Image
	if needsImageUser(t.Pod, c) {
		var err error
		if image, err = t.images.service.ImageStatus(ctx, imageRef); err != nil {
			return user{}, fmt.Errorf("failed to get the image's user: %w", err)
		}
		if image == nil {
			return user{}, fmt.Errorf("failed to get the image's user: image %q is gone", c.Image)
		}
	}
	return runAs(t.Pod, c, image)
}

// checkSeccompProfile reports a missing Localhost profile before the runtime
// does, whose error does not say where the file should be.
func (t *transaction) checkSeccompProfile(c *v1.Container) error {
	p := seccompProfile(t.Pod, c)
	if p == nil || p.Type != v1.SeccompProfileTypeLocalhost {
		return nil
	}
	file := t.config.seccompFile(p)
	switch info, err := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("seccomp profile %q does not exist on this host; put it at %s", *p.LocalhostProfile, file)
	case err != nil:
		return fmt.Errorf("failed to read the seccomp profile: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("seccomp profile %s is not a regular file", file)
	}
	return nil
}
