package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Modes of what a hostPath volume creates; they are the kubelet's.
const (
	hostDirMode  = 0o755
	hostFileMode = 0o644
)

// setupHostPath checks that the path is of the desired type, or creates it.
func setupHostPath(src *v1.HostPathVolumeSource) (string, error) {
	path := src.Path
	if !filepath.IsAbs(path) || slices.Contains(strings.Split(path, "/"), "..") {
		return "", fmt.Errorf("hostPath %q must be absolute and must not contain \"..\"", path)
	}
	kind := v1.HostPathUnset
	if src.Type != nil {
		kind = *src.Type
	}
	switch kind {
	case v1.HostPathUnset:
		return path, nil
	case v1.HostPathDirectoryOrCreate:
		if err := makeDir(path); err != nil {
			return "", fmt.Errorf("failed to create directory: %w", err)
		}
	case v1.HostPathFileOrCreate:
		if err := makeFile(path); err != nil {
			return "", fmt.Errorf("failed to create file: %w", err)
		}
	}
	want, ok := hostPathTypes[kind]
	if !ok {
		return "", fmt.Errorf("unknown hostPath type %q", kind)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("hostPath %s does not exist, but its type is %s", path, kind)
	}
	if err != nil {
		return "", fmt.Errorf("failed to check hostPath: %w", err)
	}
	if got := info.Mode().Type(); got != want.mode {
		return "", fmt.Errorf("hostPath %s is not %s, as type %s requires", path, want.name, kind)
	}
	return path, nil
}

var hostPathTypes = map[v1.HostPathType]struct {
	mode fs.FileMode
	name string
}{
	v1.HostPathDirectoryOrCreate: {fs.ModeDir, "a directory"},
	v1.HostPathDirectory:         {fs.ModeDir, "a directory"},
	v1.HostPathFileOrCreate:      {0, "a file"},
	v1.HostPathFile:              {0, "a file"},
	v1.HostPathSocket:            {fs.ModeSocket, "a socket"},
	v1.HostPathCharDev:           {fs.ModeDevice | fs.ModeCharDevice, "a character device"},
	v1.HostPathBlockDev:          {fs.ModeDevice, "a block device"},
}

// makeDir creates the directory and its parents, whose modes do not depend on the
// umask. It changes nothing that exists, even if another user may write to a parent
// and exchanges the directory while it is created: what is missing is created below
// the descriptor of the nearest parent.
func makeDir(path string) error {
	parent, missing := path, ""
	for {
		_, err := os.Stat(parent)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = filepath.Join(filepath.Base(parent), missing)
		parent = filepath.Dir(parent)
	}
	if missing == "" {
		return nil
	}
	mode := uint32(hostDirMode)
	made, err := openBeneath(parent, missing, &mode)
	if err != nil {
		return err
	}
	return made.Close()
}

// makeFile creates an empty file in an existing directory.
func makeFile(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, hostFileMode)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(hostFileMode), f.Close())
}
