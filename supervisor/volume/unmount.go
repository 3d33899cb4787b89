package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// unmountLimit limits one unmount. That of a network file system whose server is
// unreachable hangs.
const unmountLimit = 30 * time.Second

// unmountBelow unmounts what this package has mounted below a path in a pod's
// directory. Other mounts there are an error: their content is not the pod's.
func (v *Volumes) unmountBelow(podDir, path string) error {
	// The kernel reports paths without links.
	realPod, err := filepath.EvalSymlinks(podDir)
	if err != nil {
		return ignoreNotExist(err)
	}
	path = realPod + strings.TrimPrefix(path, podDir)
	points, err := v.readMounts()
	if err != nil {
		return fmt.Errorf("failed to read mounts: %w", err)
	}
	found := mountsBelow(points, path)
	for _, point := range found {
		if !isOwnMount(strings.TrimPrefix(point, realPod+"/")) {
			return stillMountedError(point)
		}
	}
	for _, point := range found {
		if err := unmount(point); err != nil {
			return fmt.Errorf("failed to unmount %s: %w", point, err)
		}
	}
	return nil
}

// unmount removes one mount and waits for it. A path where nothing is mounted is no
// error.
func unmount(path string) error {
	done := make(chan error, 1)
	// It outlives this call only if the kernel waits for a server.
	go func() { done <- unix.Unmount(path, unix.UMOUNT_NOFOLLOW) }()
	limit := time.NewTimer(unmountLimit)
	defer limit.Stop()
	select {
	case err := <-done:
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if errors.Is(err, unix.EBUSY) {
			return errors.New("in use; list the processes that use it with: fuser -vm " + path)
		}
		return err
	case <-limit.C:
		// Detached, it is no longer visible, and ends when its server responds or
		// gives up.
		return unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH|unix.MNT_FORCE)
	}
}

// Teardown removes the pod's volumes: it unmounts what was mounted for them, checks
// that nothing else is mounted there, and deletes them. A pod without volumes is no
// error.
func (v *Volumes) Teardown(ctx context.Context, uid types.UID) error {
	dir, err := v.PodDir(uid)
	if err != nil {
		return err
	}
	v.waits.forget(uid)
	// Subpaths first: they are mounts of what is in a volume.
	err = v.remove(dir, filepath.Join(dir, subPathsDir))
	if err == nil {
		err = v.unpublish(ctx, uid)
	}
	if err == nil {
		err = v.remove(dir, filepath.Join(dir, volumesDir))
	}
	if err != nil {
		return fmt.Errorf("failed to tear down the pod's volumes: %w", err)
	}
	return nil
}

// Remove removes the pod's directory with the same checks.
func (v *Volumes) Remove(ctx context.Context, uid types.UID) error {
	if err := v.Teardown(ctx, uid); err != nil {
		return err
	}
	dir, err := v.PodDir(uid)
	if err != nil {
		return err
	}
	if err := v.remove(dir, dir); err != nil {
		return fmt.Errorf("failed to remove the pod's directory: %w", err)
	}
	return nil
}

func (v *Volumes) remove(podDir, path string) error {
	if _, err := os.Lstat(path); err != nil {
		return ignoreNotExist(err)
	}
	if err := v.unmountBelow(podDir, path); err != nil {
		return err
	}
	return removeTree(path)
}
