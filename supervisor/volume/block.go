package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

// checkMode returns an error if a container uses a volume of the pod in another way than its
// volumeMode allows: Block in volumeDevices, Filesystem in volumeMounts.
func (s *setup) checkMode(volume string, mode v1.PersistentVolumeMode) error {
	for c := range podinfo.EachContainer(&s.req.Pod.Spec, podinfo.AllContainers) {
		if mode == v1.PersistentVolumeBlock && mountsVolume(c, volume) {
			return fmt.Errorf("the volume has volumeMode Block, but is in volumeMounts of container %s; move it to volumeDevices, with devicePath", c.Name)
		}
		if mode != v1.PersistentVolumeBlock && opensDevice(c, volume) {
			return fmt.Errorf("the volume has volumeMode Filesystem, but is in volumeDevices of container %s; "+
				"move it to volumeMounts, with mountPath, or set volumeMode: Block of the claim and its PersistentVolume", c.Name)
		}
	}
	return nil
}

// mountsVolume reports whether a container mounts a volume.
func mountsVolume(c *v1.Container, volume string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume })
}

// opensDevice reports whether a container has a volume as a block device.
func opensDevice(c *v1.Container, volume string) bool {
	return slices.ContainsFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return d.Name == volume })
}

// setupBlock gives a pod the block device to which its claim is bound. Nothing is written to
// the device, and its owner and mode stay, as with the kubelet.
func (s *setup) setupBlock(c *claimVolume, bound *binding.Binding, claim *v1.PersistentVolumeClaim, readOnly, held bool) (Mounted, error) {
	device, err := s.blockDevice(bound)
	if err != nil {
		return Mounted{}, fmt.Errorf("PersistentVolume %s: %w", bound.Volume.Name, err)
	}
	mounted := Mounted{Path: device, ReadOnly: readOnly, Device: true}
	if held {
		return mounted, nil
	}
	if err := s.recordUse(c, claim); err != nil {
		return Mounted{}, err
	}
	s.reportChange(bound, claim)
	return mounted, nil
}

// blockDevice returns the device of a local volume, behind all links: it may have another
// number since it was plugged in again. A device that is mounted on the host would lose data.
func (v *Volumes) blockDevice(bound *binding.Binding) (string, error) {
	path := bound.Volume.Spec.Local.Path
	device, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("local path %s does not exist; connect the device", path)
	}
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		return "", fmt.Errorf("local path %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", fmt.Errorf("volumeMode is Block, and local path %s is not a block device; name one, or use volumeMode Filesystem for a directory", path)
	}
	points, err := v.readMounts()
	if err != nil {
		return "", fmt.Errorf("failed to read mounts: %w", err)
	}
	for _, m := range points {
		if uint32(m.Major) == unix.Major(uint64(st.Rdev)) && uint32(m.Minor) == unix.Minor(uint64(st.Rdev)) {
			return "", fmt.Errorf("block device %s is mounted on %s; unmount it, or use volumeMode Filesystem and a local path of a directory in it", path, m.Mountpoint)
		}
	}
	return device, nil
}
