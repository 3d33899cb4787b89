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
)

// Part is a part of a volume that a container mounts.
type Part struct {
	UID types.UID
	// Volume and Container are names, Index is that of the container's mount.
	Volume, Container string
	Index             int
	// Path leads from the volume's top to the part.
	Path string
}

// MountPart makes a part of a volume that is set up a path of its own on the
// host, which leads nowhere else whatever a container does to the volume
// meanwhile. A folder that is missing is made. The container that mounts it
// sees the part as it is now: files that are exchanged later stay the old ones.
func (v *Volumes) MountPart(m Mounted, part Part) (string, error) {
	target, err := v.partTarget(part)
	if err != nil {
		return "", err
	}
	if err := CheckPart(part.Path); err != nil {
		return "", err
	}
	mode, err := partMode(m)
	if err != nil {
		return "", err
	}
	source, err := openBeneath(m.Path, part.Path, mode)
	if errors.Is(err, errEscapes) {
		return "", fmt.Errorf("subPath %q of volume %q %w", part.Path, part.Volume, errEscapes)
	}
	if errors.Is(err, unix.ENOENT) {
		return "", fmt.Errorf("subPath %q of volume %q is %w", part.Path, part.Volume, ErrMissing)
	}
	if err != nil {
		return "", fmt.Errorf("cannot open subPath of volume %q: %w", part.Volume, err)
	}
	defer source.Close()
	if err := bind(source, target); err != nil {
		return "", fmt.Errorf("cannot mount subPath %q of volume %q: %w", part.Path, part.Volume, err)
	}
	return target, nil
}

// CheckPart refuses a path to a part that leads out of its volume by itself.
func CheckPart(part string) error {
	if path.IsAbs(part) || slices.Contains(strings.Split(part, "/"), "..") {
		return fmt.Errorf("subPath %q must be relative, without .. in it", part)
	}
	return nil
}

func (v *Volumes) partTarget(part Part) (string, error) {
	dir, err := v.PodDir(part.UID)
	if err != nil {
		return "", err
	}
	if !validName.MatchString(part.Volume) || !validName.MatchString(part.Container) {
		return "", fmt.Errorf("volume %q of container %q: %w", part.Volume, part.Container, errVolumeName)
	}
	return filepath.Join(dir, subPathsDir, part.Volume, part.Container, strconv.Itoa(part.Index)), nil
}

// partMode is the mode of folders that are made in a volume, the volume's own;
// nil if none are.
func partMode(m Mounted) (*uint32, error) {
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

// bind mounts an open file or folder on a path of the same kind, which it
// makes. One that is mounted there already stays.
func bind(source *os.File, target string) error {
	var from, there unix.Stat_t
	if err := unix.Fstat(int(source.Fd()), &from); err != nil {
		return err
	}
	switch err := unix.Lstat(target, &there); {
	case err == nil && there.Dev == from.Dev && there.Ino == from.Ino:
		return nil
	case err == nil:
		// The part is another one by now, or nothing is mounted.
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
	return unix.Mount(fdPath(int(source.Fd())), target, "", unix.MS_BIND, "")
}
