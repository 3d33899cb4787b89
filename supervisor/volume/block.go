package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

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
			return fmt.Errorf("the volume has volumeMode Block, but is in volumeMounts of container %s; move it to "+
				"volumeDevices, with devicePath", c.Name)
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
func (s *setup) setupBlock(c *claimVolume, bound *binding.Binding, claim *v1.PersistentVolumeClaim, readOnly,
	held bool) (Mounted, error) {
	device, err := s.blockDevice(bound)
	if err != nil {
		return Mounted{}, fmt.Errorf("PersistentVolume %s: %w", bound.Volume.Name, err)
	}
	mounted := Mounted{Path: device, ReadOnly: readOnly, Device: true}
	if held {
		return mounted, nil
	}
	if err := s.checkExclusiveUse(device); err != nil {
		return Mounted{}, fmt.Errorf("PersistentVolume %s: %w", bound.Volume.Name, err)
	}
	if err := s.recordUse(c, claim); err != nil {
		return Mounted{}, err
	}
	if !c.cluster {
		s.reportChange(bound, claim)
	}
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
		return "", fmt.Errorf("volumeMode is Block, and local path %s is not a block device; name one, or use volumeMode "+
			"Filesystem for a directory", path)
	}
	points, err := v.readMounts()
	if err != nil {
		return "", fmt.Errorf("failed to read mounts: %w", err)
	}
	for _, m := range points {
		if uint32(m.Major) == unix.Major(uint64(st.Rdev)) && uint32(m.Minor) == unix.Minor(uint64(st.Rdev)) {
			return "", fmt.Errorf("block device %s is mounted on %s; unmount it, or use volumeMode Filesystem and a local "+
				"path of a directory in it", path, m.Mountpoint)
		}
	}
	return device, nil
}

// checkExclusiveUse returns an error if a device is in use for a purpose that excludes others, such as a file
// system of several devices, a partition that is mounted, LVM, RAID or swap. The mount table does not show these
// with the number of the device. A pod that has the device already may use it in this way itself.
func (v *Volumes) checkExclusiveUse(device string) error {
	open := v.openExclusive
	if open == nil {
		open = openExclusive
	}
	// Two pods that begin to share a device must not take each other for such a use.
	lock, _ := v.opening.LoadOrStore(device, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	if err := open(device); errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("block device %s is in use by the host or by another pod: it, or a partition of it, is mounted, "+
			"or belongs to LVM, RAID or swap; lsblk %[1]s shows which; end that use, or name another device", device)
	}
	return nil
}

// openExclusive opens a device as the kernel's file systems do, and closes it. Nothing is written.
func openExclusive(device string) error {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
