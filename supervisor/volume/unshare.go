package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/mounts"
)

// UnshareRoots undoes ShareRoot, for the pods directory and for others, when the daemon ends: as mounts on themselves
// they could not be removed. It does so only if no pod is left. Each stays that has other mounts in it, is open, or is
// mounted in another mount namespace: what is mounted there, by the driver of a volume for example, would not be seen
// here after the next start.
func (v *Volumes) UnshareRoots(others ...string) error {
	if pods, err := os.ReadDir(v.Root); err != nil || len(pods) > 0 {
		return nil // of a directory that cannot be read, nothing is known
	}
	var errs []error
	for _, dir := range append([]string{v.Root}, others...) {
		errs = append(errs, v.unshare(dir))
	}
	return errors.Join(errs...)
}

func (v *Volumes) unshare(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	points, err := v.readMounts()
	if err != nil {
		return fmt.Errorf("failed to read mounts: %w", err)
	}
	m := mountOf(points, real)
	if !onItself(points, m, real) || len(mountsBelow(points, real)) > 1 || mountedElsewhere(m) {
		return nil
	}
	if err := unix.Unmount(real, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("failed to unmount %s: %w", real, err)
	}
	return nil
}

// onItself reports whether a mount is a directory of its parent mount on itself, and shared, as ShareRoot makes it.
func onItself(points []*mountinfo.Info, m *mountinfo.Info, dir string) bool {
	at := slices.IndexFunc(points, func(p *mountinfo.Info) bool { return p.ID == m.Parent })
	if m.Mountpoint != dir || !isShared(m) || at < 0 {
		return false
	}
	parent := points[at]
	below, err := filepath.Rel(parent.Mountpoint, dir)
	return err == nil && m.Major == parent.Major && m.Minor == parent.Minor && m.Root == filepath.Join(parent.Root, below)
}

// mountedElsewhere reports whether a process of another mount namespace has a mount that propagates to or from a mount.
func mountedElsewhere(m *mountinfo.Info) bool {
	at := slices.IndexFunc(strings.Fields(m.Optional), func(o string) bool { return strings.HasPrefix(o, "shared:") })
	if at < 0 {
		return false
	}
	_, group, _ := strings.Cut(strings.Fields(m.Optional)[at], ":")
	own, _ := os.Readlink("/proc/thread-self/ns/mnt")
	seen := map[string]bool{own: true}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		namespace, err := os.Readlink(filepath.Join(process, "ns/mnt"))
		if err != nil || seen[namespace] {
			continue
		}
		seen[namespace] = true
		if propagates(filepath.Join(process, "mountinfo"), group) {
			return true
		}
	}
	return false
}

// propagates reports whether a file of mounts has one in a peer group, or one that follows it.
func propagates(file, group string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false // the process has ended
	}
	defer f.Close()
	list, _ := mounts.Read(f, func(m *mountinfo.Info) (skip, stop bool) {
		found := slices.ContainsFunc(strings.Fields(m.Optional),
			func(o string) bool { return o == "shared:"+group || o == "master:"+group })
		return !found, found
	})
	return len(list) > 0
}
