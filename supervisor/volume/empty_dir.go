package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/internal/fsgroup"
)

// Modes of emptyDir volumes. On disk and in memory they are the kubelet's, which leaves
// a tmpfs the sticky mode that the kernel gives it. Huge pages are writable for every
// user of the pod, which the kubelet permits only to root and the fsGroup.
const (
	emptyDirMode       = 0o777
	emptyDirMemoryMode = 0o1777
)

// setupEmptyDir creates an emptyDir. An existing one keeps its content, and its quota.
func (s *setup) setupEmptyDir(ctx context.Context, path string, vol *v1.Volume) error {
	src := vol.EmptyDir
	switch medium := src.Medium; {
	case medium == v1.StorageMediumDefault:
		return s.makeEmptyDir(ctx, path, vol)
	case medium == v1.StorageMediumMemory:
		limit := src.SizeLimit
		if limit == nil {
			limit = &resource.Quantity{}
		}
		made, err := mountTmpfs(path, emptyDirMemoryMode, memorySize(s.req.Pod, limit, s.req.Memory))
		return s.applyGroup(ctx, made, err, path)
	case medium == v1.StorageMediumHugePages, isHugePages(medium):
		size, err := pageSize(s.req.Pod, medium)
		if err != nil {
			return err
		}
		made, err := mountHugePages(path, size)
		return s.applyGroup(ctx, made, err, path)
	default:
		return fmt.Errorf("unknown medium %q of emptyDir; use none, Memory, HugePages, or HugePages-SIZE", medium)
	}
}

func isHugePages(medium v1.StorageMedium) bool {
	prefix := string(v1.StorageMediumHugePagesPrefix)
	return len(medium) > len(prefix) && string(medium[:len(prefix)]) == prefix
}

func mountHugePages(path string, size resource.Quantity) (made bool, err error) {
	sized := fmt.Sprintf("/sys/kernel/mm/hugepages/hugepages-%dkB", size.Value()>>10)
	if _, err := os.Stat(sized); errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("this host has no huge pages of size %s", size.String())
	}
	return mountOnce(path, "hugetlbfs", unix.HUGETLBFS_MAGIC, fmt.Sprintf("pagesize=%d", size.Value()),
		fmt.Sprintf("mode=%04o", emptyDirMode))
}

// applyGroup gives a newly mounted file system to the pod's group.
func (s *setup) applyGroup(ctx context.Context, made bool, err error, path string) error {
	if err != nil || !made {
		return err
	}
	if err := s.group.Apply(ctx, path, fsgroup.ReadWrite); err != nil {
		return errors.Join(err, unmount(path))
	}
	return nil
}

// makeEmptyDir creates a directory on disk atomically: one that exists is complete.
func (s *setup) makeEmptyDir(ctx context.Context, path string, vol *v1.Volume) error {
	switch info, err := os.Lstat(path); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s exists and is not a directory", path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent, name := filepath.Split(path)
	if err := os.MkdirAll(parent, podMode); err != nil {
		return err
	}
	// The name of a volume contains no dot.
	temporary := filepath.Join(parent, name+".new")
	if err := os.Mkdir(temporary, emptyDirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// The umask has restricted the mode.
	if err := os.Chmod(temporary, emptyDirMode); err != nil {
		return err
	}
	if err := s.group.Apply(ctx, temporary, fsgroup.ReadWrite); err != nil {
		return err
	}
	s.limitEmptyDir(ctx, temporary, vol)
	return s.renameEmptyDir(ctx, temporary, path, vol.Name)
}
