package csi

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
)

// dirMode is the mode of the directories above volumes.
const dirMode = 0o750

// MakeDirectories creates the directories in which volumes are staged and published, as a kubelet does when it starts:
// many drivers mount them with the hostPath type Directory, and would wait for the first volume.
func (m *Manager) MakeDirectories() error {
	for _, dir := range []string{m.podsDir(), m.PluginsDir()} {
		if err := os.MkdirAll(dir, dirMode); err != nil {
			return err
		}
	}
	return nil
}

// Names in paths are checked here again: the directories are created and removed as root.
var (
	driverName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$`)
	validUID   = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)
	validName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

func validDriver(name string) bool {
	return driverName.MatchString(name) && !strings.Contains(name, "..")
}

// podsDir is the directory in which volumes are published.
func (m *Manager) podsDir() string { return filepath.Join(m.options.Dir, "pods") }

// pluginDir is the directory of a pod's volumes.
func (m *Manager) pluginDir(uid types.UID) string {
	return filepath.Join(m.podsDir(), string(uid), "volumes", "kubernetes.io~csi")
}

// targetPath is where a volume is published for a pod, as by a kubelet.
func (m *Manager) targetPath(v *csivolume.Volume) (string, error) {
	switch {
	case m.options.Dir == "":
		return "", errNoDirectory
	case !validDriver(v.Driver), v.Handle == "", !validUID.MatchString(string(v.Pod)), !validName.MatchString(v.Name):
		return "", fmt.Errorf("invalid name of a CSI volume: driver %q, volume %q", v.Driver, v.Name)
	}
	if v.Block {
		return filepath.Join(m.devicesDir(), "publish", blockName(v), string(v.Pod), v.Name), nil
	}
	return filepath.Join(m.pluginDir(v.Pod), v.Name, "mount"), nil
}

// PluginsDir is the directory of plugins, with their sockets and the staged volumes. Its inode stays the same for good.
func (m *Manager) PluginsDir() string { return filepath.Join(m.options.Dir, "plugins") }

// pluginsDir is the directory in which volumes are staged, and block devices published.
func (m *Manager) pluginsDir() string {
	return filepath.Join(m.PluginsDir(), "kubernetes.io", "csi")
}

// devicesDir is the directory of block devices.
func (m *Manager) devicesDir() string { return filepath.Join(m.pluginsDir(), "volumeDevices") }

// pathsFor returns where volumes were published for a pod, whether or not they are mounted.
func (m *Manager) pathsFor(uid types.UID) ([]string, error) {
	paths, err := m.devicesFor(uid)
	if err != nil {
		return nil, err
	}
	if _, err = os.Lstat(m.pluginDir(uid)); err == nil {
		paths = append(paths, m.pluginDir(uid))
	}
	return paths, ignoreNotExist(err)
}

// devicesFor returns the files at which block devices were published for a pod. Those of a kubelet, which has no
// directory for each pod, are not among them.
func (m *Manager) devicesFor(uid types.UID) (paths []string, err error) {
	publish := filepath.Join(m.devicesDir(), "publish")
	volumes, err := os.ReadDir(publish)
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	for _, volume := range volumes {
		dir := filepath.Join(publish, volume.Name(), string(uid))
		files, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return nil, err
		}
		for _, file := range files {
			paths = append(paths, filepath.Join(dir, file.Name()))
		}
	}
	return paths, nil
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// blockName is the name of the directory of a block device. A kubelet uses the name of the
// PersistentVolume, which is not unique for claims of a cluster and of manifests.
func blockName(v *csivolume.Volume) string { return hashOf(v.Driver + "\x00" + v.Handle) }

func hashOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// stagingPath is where a volume is staged, as by a kubelet. The handle may be anything.
func (m *Manager) stagingPath(v *csivolume.Volume) string {
	if v.Block {
		return filepath.Join(m.devicesDir(), "staging", blockName(v))
	}
	return filepath.Join(m.pluginsDir(), v.Driver, hashOf(v.Handle), "globalmount")
}

var errNoDirectory = errors.New("the node has no directory for CSI volumes")

// mountedAt returns what is mounted at a path, nil if nothing is.
func (m *Manager) mountedAt(path string) (*mountinfo.Info, error) {
	// The kernel reports paths without links. The directories above a volume may be on another disk; they are
	// never in a volume, so that this does not hang with one.
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	path = filepath.Join(dir, filepath.Base(path))
	points, err := m.options.Mounts()
	if err != nil {
		return nil, fmt.Errorf("failed to read mounts: %w", err)
	}
	for _, point := range slices.Backward(points) {
		if point.Mountpoint == path {
			return point, nil
		}
	}
	return nil, nil
}

// isVolumePath reports whether a path, relative to the directory of all volumes, is one at which a volume is
// published or staged.
func isVolumePath(rel string) bool {
	for _, pattern := range []string{
		"pods/*/volumes/kubernetes.io~csi/*/mount", "plugins/kubernetes.io/csi/*/*/globalmount",
		"plugins/kubernetes.io/csi/volumeDevices/publish/*/*", // a kubelet's
		"plugins/kubernetes.io/csi/volumeDevices/publish/*/*/*", "plugins/kubernetes.io/csi/volumeDevices/staging/*",
	} {
		if match, err := filepath.Match(pattern, rel); err == nil && match {
			return true
		}
	}
	return false
}

// removeEmpty removes a directory or file at which a volume was. Content is an error: it may be that
// of a volume.
func removeEmpty(path string) error {
	err := os.Remove(path)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ENOTEMPTY):
		return fmt.Errorf(
			"%s is not empty, although no volume is mounted there; look at what it contains, and move that away", path)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s is still mounted; stop what uses it, then run: umount %[1]s", path)
	}
	return err
}

// removeParents removes the empty directories above a path, below the directory of all pods or of all
// drivers.
func (m *Manager) removeParents(path string) {
	plugins := m.pluginsDir()
	for dir := filepath.Dir(path); strings.HasPrefix(dir, m.podsDir()+"/") ||
		strings.HasPrefix(dir, plugins+"/"); dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil {
			return
		}
	}
}
