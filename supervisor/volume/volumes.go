package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Layout of a pod's folder, as the kubelet's.
const (
	volumesDir  = "volumes"
	emptyDirKey = "kubernetes.io~empty-dir"

	podMode      = 0o750
	emptyDirMode = 0o777
)

// Volumes are the volumes of all pods below one root.
type Volumes struct {
	// Root holds a folder for each pod, named by its UID.
	Root string
	// MountPoints lists where something is mounted; nil reads
	// /proc/self/mountinfo.
	MountPoints func() ([]string, error)
}

// What names a folder below the root is checked here once more, whoever
// validated it before: the folders are written and deleted as root.
var (
	validUID  = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)
	validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// PodDir is the folder of a pod. An invalid UID is an error.
func (v *Volumes) PodDir(uid types.UID) (string, error) {
	if !validUID.MatchString(string(uid)) {
		return "", fmt.Errorf("%q is no valid UID: 1 to 63 of A-Z, a-z, 0-9 and - are", uid)
	}
	return filepath.Join(v.Root, string(uid)), nil
}

// Setup makes the volumes that a container of the pod mounts and returns their
// paths on the host by name. It can be repeated: what is there stays as it is.
func (v *Volumes) Setup(ctx context.Context, pod *v1.Pod) (map[string]string, error) {
	dir, err := v.PodDir(pod.UID)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, podMode); err != nil {
		return nil, fmt.Errorf("cannot make the folder of the pod: %w", err)
	}
	paths := map[string]string{}
	for i := range pod.Spec.Volumes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vol := &pod.Spec.Volumes[i]
		if !mounted(pod, vol.Name) {
			continue
		}
		path, err := setup(dir, vol)
		if err != nil {
			return nil, fmt.Errorf("cannot set up volume %q: %w", vol.Name, err)
		}
		paths[vol.Name] = path
	}
	return paths, nil
}

func setup(dir string, vol *v1.Volume) (string, error) {
	if !validName.MatchString(vol.Name) {
		return "", errors.New("its name is no valid one")
	}
	switch {
	case vol.EmptyDir != nil:
		if vol.EmptyDir.Medium != v1.StorageMediumDefault {
			return "", fmt.Errorf("emptyDir of medium %q is not supported", vol.EmptyDir.Medium)
		}
		return setupEmptyDir(filepath.Join(dir, volumesDir, emptyDirKey, vol.Name))
	case vol.HostPath != nil:
		return setupHostPath(vol.HostPath)
	}
	return "", errors.New("only emptyDir and hostPath volumes are supported")
}

// mounted reports whether a container uses the volume; the kubelet, too, sets
// up no other.
func mounted(pod *v1.Pod, name string) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if slices.ContainsFunc(list[i].VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == name }) {
				return true
			}
		}
	}
	return false
}

// setupEmptyDir makes the folder in one step: one that is there is ready, and
// whatever its containers made of its mode is theirs.
func setupEmptyDir(path string) (string, error) {
	switch info, err := os.Lstat(path); {
	case err == nil && info.IsDir():
		return path, nil
	case err == nil:
		return "", fmt.Errorf("%s is in the way", path)
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	parent, name := filepath.Split(path)
	if err := os.MkdirAll(parent, podMode); err != nil {
		return "", err
	}
	// A dot cannot be in a volume's name.
	fresh := filepath.Join(parent, name+".new")
	if err := os.Mkdir(fresh, emptyDirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	// The umask took a part of the mode.
	if err := os.Chmod(fresh, emptyDirMode); err != nil {
		return "", err
	}
	return path, os.Rename(fresh, path)
}

// Teardown removes the pod's volumes, after a look that nothing is mounted
// there. A pod without volumes is no error.
func (v *Volumes) Teardown(uid types.UID) error {
	dir, err := v.PodDir(uid)
	if err != nil {
		return err
	}
	if err := v.removeAll(filepath.Join(dir, volumesDir)); err != nil {
		return fmt.Errorf("cannot take down the volumes of the pod: %w", err)
	}
	return nil
}

// Remove removes the whole folder of the pod with the same care.
func (v *Volumes) Remove(uid types.UID) error {
	dir, err := v.PodDir(uid)
	if err != nil {
		return err
	}
	if err := v.removeAll(dir); err != nil {
		return fmt.Errorf("cannot remove the folder of the pod: %w", err)
	}
	return nil
}

// Orphans are the pods with a folder here that keep does not want, and the
// names of entries that are no pod's.
func (v *Volumes) Orphans(keep func(types.UID) bool) (uids []types.UID, strangers []string, err error) {
	entries, err := os.ReadDir(v.Root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list the pods' folders: %w", err)
	}
	for _, e := range entries {
		uid := types.UID(e.Name())
		switch {
		case !e.IsDir() || !validUID.MatchString(e.Name()):
			strangers = append(strangers, e.Name())
		case !keep(uid):
			uids = append(uids, uid)
		}
	}
	return uids, strangers, nil
}

// removeAll deletes a tree in which nothing is mounted.
func (v *Volumes) removeAll(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	points, err := v.mountPoints()
	if err != nil {
		return fmt.Errorf("cannot tell what is mounted: %w", err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if point := below(points, real); point != "" {
		return fmt.Errorf("%s is still mounted; end what uses it, then: umount %s", point, point)
	}
	return os.RemoveAll(path)
}
