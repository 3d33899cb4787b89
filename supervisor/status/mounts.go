package status

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// volumeMounts returns the mounts of a container as its spec has them. c is its newest
// instance, nil if it has none: only then it is known whether a mount that should be
// recursively read-only if possible is.
func volumeMounts(spec *v1.Container, c *cri.Container) []v1.VolumeMountStatus {
	if len(spec.VolumeMounts) == 0 {
		return nil
	}
	list := make([]v1.VolumeMountStatus, len(spec.VolumeMounts))
	for i := range spec.VolumeMounts {
		m := &spec.VolumeMounts[i]
		list[i] = v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			list[i].RecursiveReadOnly = recursiveReadOnly(m, c)
		}
	}
	return list
}

// recursiveReadOnly returns whether a read-only mount is so recursively: Enabled or
// Disabled, and nil while the runtime has not decided.
func recursiveReadOnly(m *v1.VolumeMount, c *cri.Container) *v1.RecursiveReadOnlyMode {
	mode := v1.RecursiveReadOnlyDisabled
	switch {
	case m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled:
	case c == nil && *m.RecursiveReadOnly == v1.RecursiveReadOnlyIfPossible:
		return nil
	case c == nil, slices.Contains(c.RecursiveReadOnly, m.MountPath):
		mode = v1.RecursiveReadOnlyEnabled
	}
	return &mode
}
