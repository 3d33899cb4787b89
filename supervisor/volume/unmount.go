package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// unmountLimit is how long one unmount may take. That of a network file system
// whose server is gone hangs.
const unmountLimit = 30 * time.Second

// unmountBelow takes down the mounts that this package made in a part of a
// pod's folder. It is an error if others are there: what they hold may be
// anybody's.
func (v *Volumes) unmountBelow(podDir, path string) error {
	// The kernel tells real paths.
	realPod, err := filepath.EvalSymlinks(podDir)
	if err != nil {
		return ignoreGone(err)
	}
	path = realPod + strings.TrimPrefix(path, podDir)
	points, err := v.readMounts()
	if err != nil {
		return fmt.Errorf("cannot tell what is mounted: %w", err)
	}
	found := mountsBelow(points, path)
	for _, point := range found {
		if !ours(strings.TrimPrefix(point, realPod+"/")) {
			return stillMounted(point)
		}
	}
	for _, point := range found {
		if err := unmount(point); err != nil {
			return fmt.Errorf("cannot unmount %s: %w", point, err)
		}
	}
	return nil
}

// unmount takes down one mount and waits for it. One that is not there is no
// error.
func unmount(path string) error {
	done := make(chan error, 1)
	// It outlives this call only where the kernel hangs on a server.
	go func() { done <- unix.Unmount(path, unix.UMOUNT_NOFOLLOW) }()
	limit := time.NewTimer(unmountLimit)
	defer limit.Stop()
	select {
	case err := <-done:
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if errors.Is(err, unix.EBUSY) {
			return errors.New("it is in use; see who uses it with: fuser -vm " + path)
		}
		return err
	case <-limit.C:
		// Detached, it is gone for everybody who comes, and ends when its
		// server answers or gives up.
		return unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH|unix.MNT_FORCE)
	}
}

// Teardown removes the pod's volumes: it unmounts what was mounted for them,
// looks that nothing else is mounted there, and deletes them. A pod without
// volumes is no error.
func (v *Volumes) Teardown(uid types.UID) error {
	dir, err := v.PodDir(uid)
	if err != nil {
		return err
	}
	for _, part := range []string{subPathsDir, volumesDir} {
		if err := v.remove(dir, filepath.Join(dir, part)); err != nil {
			return fmt.Errorf("cannot take down the volumes of the pod: %w", err)
		}
	}
	return nil
}

// Remove removes the whole folder of the pod with the same care.
func (v *Volumes) Remove(uid types.UID) error {
	dir, err := v.PodDir(uid)
	if err != nil {
		return err
	}
	if err := v.remove(dir, dir); err != nil {
		return fmt.Errorf("cannot remove the folder of the pod: %w", err)
	}
	return nil
}

func (v *Volumes) remove(podDir, path string) error {
	if _, err := os.Lstat(path); err != nil {
		return ignoreGone(err)
	}
	if err := v.unmountBelow(podDir, path); err != nil {
		return err
	}
	return removeTree(path)
}
