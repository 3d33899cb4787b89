package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const emptyDirMode = 0o777

// setupEmptyDir makes the folder of an emptyDir. What its containers made of
// one that is there stays. A sizeLimit on disk is not held here: whoever
// evicts pods looks at it.
func (s *setup) setupEmptyDir(path string, src *v1.EmptyDirVolumeSource) error {
	switch medium := src.Medium; {
	case medium == v1.StorageMediumDefault:
		return makeEmptyDir(path, s.owner)
	case medium == v1.StorageMediumMemory:
		limit := src.SizeLimit
		if limit == nil {
			limit = &resource.Quantity{}
		}
		made, err := mountTmpfs(path, emptyDirMode, memorySize(s.req.Pod, limit, s.req.Memory))
		return s.own(made, err, path)
	case medium == v1.StorageMediumHugePages, isHugePages(medium):
		size, err := pageSize(s.req.Pod, medium)
		if err != nil {
			return err
		}
		made, err := mountHugePages(path, size)
		return s.own(made, err, path)
	default:
		return fmt.Errorf("emptyDir of medium %q is unknown; use none, Memory, HugePages, or HugePages-SIZE", medium)
	}
}

func isHugePages(medium v1.StorageMedium) bool {
	prefix := string(v1.StorageMediumHugePagesPrefix)
	return len(medium) > len(prefix) && string(medium[:len(prefix)]) == prefix
}

func mountHugePages(path string, size resource.Quantity) (made bool, err error) {
	sized := fmt.Sprintf("/sys/kernel/mm/hugepages/hugepages-%dkB", size.Value()>>10)
	if _, err := os.Stat(sized); errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("this host has no hugepages of %s", size.String())
	}
	return mountOnce(path, "hugetlbfs", unix.HUGETLBFS_MAGIC, fmt.Sprintf("pagesize=%d", size.Value()), fmt.Sprintf("mode=%04o", emptyDirMode))
}

// own gives a file system that was mounted just now to the pod's group.
func (s *setup) own(made bool, err error, path string) error {
	if err != nil || !made {
		return err
	}
	if err := s.owner.apply(path, ownAll); err != nil {
		return errors.Join(err, unmount(path))
	}
	return nil
}

// makeEmptyDir makes a folder on disk in one step: one that is there is ready.
func makeEmptyDir(path string, owner owner) error {
	switch info, err := os.Lstat(path); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s is in the way", path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent, name := filepath.Split(path)
	if err := os.MkdirAll(parent, podMode); err != nil {
		return err
	}
	// A dot cannot be in a volume's name.
	fresh := filepath.Join(parent, name+".new")
	if err := os.Mkdir(fresh, emptyDirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// The umask took a part of the mode.
	if err := os.Chmod(fresh, emptyDirMode); err != nil {
		return err
	}
	if err := owner.apply(fresh, ownAll); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
