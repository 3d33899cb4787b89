package volume

import (
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/podstead/podstead/internal/mounts"
)

// readMounts returns what is mounted in this mount namespace, in the order of
// mounting. Tests replace it.
func (v *Volumes) readMounts() ([]*mountinfo.Info, error) {
	if v.mounts != nil {
		return v.mounts()
	}
	return mounts.Self()
}

// isShared reports whether what is mounted below a mount is seen in other mount
// namespaces, isSlave whether what is mounted below it elsewhere is seen here.
func isShared(m *mountinfo.Info) bool { return hasPropagation(m, "shared:") }
func isSlave(m *mountinfo.Info) bool  { return hasPropagation(m, "master:") }

func hasPropagation(m *mountinfo.Info, tag string) bool {
	return slices.ContainsFunc(strings.Fields(m.Optional),
		func(field string) bool { return strings.HasPrefix(field, tag) })
}

// mountsBelow returns the mount points at or below a path, the last mounted
// first: in that order they can be unmounted.
func mountsBelow(mounts []*mountinfo.Info, path string) []string {
	below := mountinfo.PrefixFilter(path)
	var found []string
	for _, m := range slices.Backward(mounts) {
		if skip, _ := below(m); !skip {
			found = append(found, m.Mountpoint)
		}
	}
	return found
}

// mountOf returns the mount that holds a path: the deepest, and of several at one
// place the last.
func mountOf(mounts []*mountinfo.Info, path string) *mountinfo.Info {
	best := &mountinfo.Info{}
	for _, m := range mounts {
		inside := m.Mountpoint == path || m.Mountpoint == "/" || strings.HasPrefix(path, m.Mountpoint+"/")
		if inside && len(m.Mountpoint) >= len(best.Mountpoint) {
			best = m
		}
	}
	return best
}
