package volume

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// CheckPropagation returns an error if mounts below a path on the host cannot reach a
// container, or those of a container the host, as the propagation mode requires. The
// error of the runtime would be less clear, or missing.
func (v *Volumes) CheckPropagation(path string, mode v1.MountPropagationMode) error {
	if mode != v1.MountPropagationHostToContainer && mode != v1.MountPropagationBidirectional {
		return nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("mountPropagation %s: %w", mode, err)
	}
	points, err := v.readMounts()
	if err != nil {
		return fmt.Errorf("failed to read mounts: %w", err)
	}
	m := mountOf(points, real)
	if isShared(m) || isSlave(m) && mode == v1.MountPropagationHostToContainer {
		return nil
	}
	return fmt.Errorf("mountPropagation %s needs a shared mount, but %s is on the private mount %s; make that shared "+
		"with: mount --make-rshared %s", mode, path, m.Mountpoint, m.Mountpoint)
}

// ShareRoot makes mounts below the pods directory propagate to other mount namespaces
// where the host keeps its mounts private. It must run before anything is mounted
// there; later it does nothing.
func (v *Volumes) ShareRoot() error {
	if err := os.MkdirAll(v.Root, podMode); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(v.Root)
	if err != nil {
		return err
	}
	points, err := v.readMounts()
	if err != nil {
		return fmt.Errorf("failed to read mounts: %w", err)
	}
	if isShared(mountOf(points, real)) || len(mountsBelow(points, real)) > 0 {
		return nil
	}
	if err := unix.Mount(real, real, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("failed to mount %s on itself: %w", real, err)
	}
	if err := unix.Mount("", real, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("failed to make %s shared: %w", real, err)
	}
	return nil
}
