package volume

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/fdpath"
)

// SubPath is a path in a volume that a container mounts.
type SubPath struct {
	UID types.UID
	// Volume and Container are names, Index is the index of the volume mount.
	Volume, Container string
	Index             int
	// Path is relative to the root of the volume.
	Path string
}

// MountSubPath bind-mounts a path in a volume to a path of its own on the host and
// returns that. A container cannot redirect it by changing the volume at the same
// time. A missing directory is created. The container sees the files of now: files
// that are replaced later stay the old ones.
func (v *Volumes) MountSubPath(m Mounted, sub SubPath) (string, error) {
	target, err := v.subPathTarget(sub)
	if err != nil {
		return "", err
	}
	if err := CheckSubPath(sub.Path); err != nil {
		return "", err
	}
	mode, err := subPathDirMode(m)
	if err != nil {
		return "", err
	}
	source, err := openBeneath(m.Path, sub.Path, mode)
	if errors.Is(err, errEscapes) {
		return "", fmt.Errorf("subPath %q of volume %q %w", sub.Path, sub.Volume, errEscapes)
	}
	if errors.Is(err, unix.ENOENT) {
		return "", fmt.Errorf("subPath %q of volume %q %w", sub.Path, sub.Volume, ErrMissing)
	}
	if err != nil {
		return "", fmt.Errorf("failed to open subPath of volume %q: %w", sub.Volume, err)
	}
	defer source.Close()
	if err := bindMount(source, target); err != nil {
		return "", fmt.Errorf("failed to mount subPath %q of volume %q: %w", sub.Path, sub.Volume, err)
	}
	return target, nil
}

// CheckSubPath rejects a path that by itself leads out of the volume.
func CheckSubPath(subPath string) error {
	if path.IsAbs(subPath) || slices.Contains(strings.Split(subPath, "/"), "..") {
		return fmt.Errorf("subPath %q must be relative and must not contain \"..\"", subPath)
	}
	return nil
}

func (v *Volumes) subPathTarget(sub SubPath) (string, error) {
	dir, err := v.PodDir(sub.UID)
	if err != nil {
		return "", err
	}
	if !validName.MatchString(sub.Volume) || !validName.MatchString(sub.Container) {
		return "", fmt.Errorf("volume %q of container %q: %w", sub.Volume, sub.Container, errVolumeName)
	}
	return filepath.Join(dir, subPathsDir, sub.Volume, sub.Container, strconv.Itoa(sub.Index)), nil
}

// subPathDirMode returns the mode of directories that are created in a volume: the
// volume's own; nil if none may be created.
func subPathDirMode(m Mounted) (*uint32, error) {
	if m.Complete {
		return nil, nil
	}
	var st unix.Stat_t
	if err := unix.Stat(m.Path, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: m.Path, Err: err}
	}
	mode := st.Mode & 0o7777
	return &mode, nil
}

// bindMount mounts an open file or directory on a target of the same type, which it
// creates. If the same file is mounted there already, it does nothing.
func bindMount(source *os.File, target string) error {
	var from, there unix.Stat_t
	if err := unix.Fstat(int(source.Fd()), &from); err != nil {
		return err
	}
	switch err := unix.Lstat(target, &there); {
	case err == nil && there.Dev == from.Dev && there.Ino == from.Ino:
		return nil
	case err == nil:
		// Another file is mounted there, or nothing.
		if err := unmount(target); err != nil {
			return err
		}
		if err := removeTree(target); err != nil {
			return err
		}
	case !errors.Is(err, unix.ENOENT):
		return &os.PathError{Op: "stat", Path: target, Err: err}
	}
	if err := os.MkdirAll(filepath.Dir(target), podMode); err != nil {
		return err
	}
	if from.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := os.Mkdir(target, podMode); err != nil {
			return err
		}
	} else if err := os.WriteFile(target, nil, 0o640); err != nil {
		return err
	}
	return unix.Mount(fdpath.Path(int(source.Fd())), target, "", unix.MS_BIND, "")
}
