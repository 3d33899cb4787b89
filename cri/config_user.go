package cri

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// user is the user that a container runs as. The zero value leaves it to the
// image, its group included; the kubelet passes the image's uid and so loses its
// group.
type user struct {
	id    *int64
	name  string
	group *int64
}

// needsImageUser reports whether the image's user affects a container's config.
func needsImageUser(pod *v1.Pod, c *v1.Container) bool {
	id, group, nonRoot := specUser(pod, c)
	return id == nil && (group != nil || nonRoot)
}

// specUser returns what the manifest defines for the user.
func specUser(pod *v1.Pod, c *v1.Container) (id, group *int64, nonRoot bool) {
	own, pods := containerContext(c), podSecurity(pod)
	return first(own.RunAsUser, pods.RunAsUser), first(own.RunAsGroup, pods.RunAsGroup),
		isTrue(first(own.RunAsNonRoot, pods.RunAsNonRoot))
}

// runAs determines the user that a container runs as. image may be nil unless
// needsImageUser.
func runAs(pod *v1.Pod, c *v1.Container, image *runtimeapi.Image) (user, error) {
	id, group, nonRoot := specUser(pod, c)
	u := user{id: id, group: group}
	if id == nil && (group != nil || nonRoot) {
		u = imageUser(image)
		u.group = group
	}
	if nonRoot {
		if err := notRoot(u, id != nil); err != nil {
			return user{}, err
		}
	}
	// The image's user is passed to the runtime only if its group must not be
	// used.
	if id == nil && group == nil {
		return user{}, nil
	}
	return u, nil
}

// notRoot returns an error for a user that is root, or may be.
func notRoot(u user, requested bool) error {
	switch {
	case u.name != "":
		return fmt.Errorf("runAsNonRoot is true and the image names its user %q, which may be root under another name; set "+
			"runAsUser to the number", u.name)
	case *u.id != 0:
		return nil
	case requested:
		return errors.New("runAsNonRoot is true and runAsUser is 0, which is root; change one of them")
	}
	return errors.New("runAsNonRoot is true and the image runs as root; set runAsUser, or take an image with another user")
}

// imageUser returns the user of an image, by number or by name; root if it names
// none.
func imageUser(image *runtimeapi.Image) user {
	if uid := image.GetUid(); uid != nil {
		return user{id: &uid.Value}
	}
	if name := image.GetUsername(); name != "" {
		return user{name: name}
	}
	return user{id: new(int64)}
}
