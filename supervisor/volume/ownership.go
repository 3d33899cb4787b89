package volume

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/fsgroup"
)

// groupOf returns the pod's fsGroup.
func groupOf(pod *v1.Pod) fsgroup.Group {
	s := pod.Spec.SecurityContext
	if s == nil || s.FSGroup == nil {
		return fsgroup.Group{}
	}
	return fsgroup.Group{GID: s.FSGroup, RootMatch: s.FSGroupChangePolicy != nil &&
		*s.FSGroupChangePolicy == v1.FSGroupChangeOnRootMismatch}
}
