package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ephemeral is the attribute of an inline volume.
const ephemeral = "csi.storage.k8s.io/ephemeral"

// flags are the mount options that the driver supports.
var flags = map[string]uintptr{"noexec": unix.MS_NOEXEC, "noatime": unix.MS_NOATIME, "ro": unix.MS_RDONLY}

func (d *driver) content(id string) string { return filepath.Join(d.dir, "volumes", filepath.Base(id)) }

// find returns the directory of a volume.
func (d *driver) find(id string) (string, error) {
	dir := d.content(id)
	if _, err := os.Stat(dir); err != nil {
		return "", status.Errorf(codes.NotFound, "volume %s: %v", id, err)
	}
	return dir, nil
}

// NodeStageVolume implements the service Node.
func (d *driver) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse,
	error) {
	dir, err := d.find(r.GetVolumeId())
	if err != nil || r.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodeStageVolumeResponse{}, err
	}
	if group := r.GetVolumeCapability().GetMount().GetVolumeMountGroup(); group != "" {
		if err := giveTo(dir, group); err != nil {
			return nil, err
		}
	}
	return &csi.NodeStageVolumeResponse{},
		bind(dir, r.GetStagingTargetPath(), r.GetVolumeCapability().GetMount().GetMountFlags())
}

// NodePublishVolume implements the service Node.
func (d *driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse,
	error) {
	source, options := r.GetStagingTargetPath(), r.GetVolumeCapability().GetMount().GetMountFlags()
	switch {
	case r.GetVolumeContext()[ephemeral] == "true":
		source = d.content(r.GetVolumeId())
		if err := os.MkdirAll(source, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(source, "class"), []byte(r.GetVolumeContext()["class"]), 0o644); err != nil {
			return nil, err
		}
	case r.GetVolumeCapability().GetBlock() != nil:
		device, err := d.find(r.GetVolumeId())
		if err != nil {
			return nil, err
		}
		return &csi.NodePublishVolumeResponse{}, bind(device, r.GetTargetPath(), nil)
	case source == "":
		var err error
		if source, err = d.find(r.GetVolumeId()); err != nil {
			return nil, err
		}
	case !mounted(source):
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged at %s", r.GetVolumeId(), source)
	}
	if r.GetReadonly() {
		options = append(options, "ro")
	}
	return &csi.NodePublishVolumeResponse{}, bind(source, r.GetTargetPath(), options)
}

// NodeUnpublishVolume implements the service Node.
func (d *driver) NodeUnpublishVolume(_ context.Context,
	r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unbind(r.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := os.Remove(r.GetTargetPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(d.content(r.GetVolumeId()), "class")); err == nil {
		if err := os.RemoveAll(d.content(r.GetVolumeId())); err != nil {
			return nil, err
		}
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeUnstageVolume implements the service Node.
func (d *driver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse,
	error) {
	return &csi.NodeUnstageVolumeResponse{}, unbind(r.GetStagingTargetPath())
}

// NodeGetVolumeStats implements the service Node.
func (d *driver) NodeGetVolumeStats(_ context.Context,
	r *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if !mounted(r.GetVolumePath()) {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", r.GetVolumeId(), r.GetVolumePath())
	}
	response := &csi.NodeGetVolumeStatsResponse{
		Usage: []*csi.VolumeUsage{
			{Unit: csi.VolumeUsage_BYTES, Total: 1 << 30, Used: 1 << 20, Available: 1<<30 - 1<<20},
			{Unit: csi.VolumeUsage_INODES, Total: 1000, Used: 10, Available: 990},
		},
		VolumeCondition: &csi.VolumeCondition{Message: "healthy"},
	}
	if text, err := os.ReadFile(filepath.Join(d.dir, "condition", r.GetVolumeId())); err == nil {
		response.VolumeCondition = &csi.VolumeCondition{Abnormal: true, Message: string(text)}
	}
	return response, nil
}

// NodeExpandVolume implements the service Node.
func (d *driver) NodeExpandVolume(_ context.Context, r *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse,
	error) {
	if !mounted(r.GetVolumePath()) {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", r.GetVolumeId(), r.GetVolumePath())
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
}

// bind mounts a directory or a device at a path, unless something is mounted there.
func bind(source, target string, options []string) error {
	if mounted(target) {
		return nil
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o750)
	} else {
		err = os.WriteFile(target, nil, 0o640)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	var set uintptr
	for _, o := range options {
		flag, ok := flags[o]
		if !ok {
			return status.Errorf(codes.InvalidArgument, "mount option %q is not supported", o)
		}
		set |= flag
	}
	if set == 0 {
		return nil
	}
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|set, "")
}

func unbind(target string) error {
	for mounted(target) {
		if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err != nil {
			return err
		}
	}
	return nil
}

// mounted reports whether something is mounted at a path.
func mounted(target string) bool {
	var at, above unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, target, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &at) != nil {
		return false
	}
	return unix.Statx(unix.AT_FDCWD, filepath.Dir(target), 0, unix.STATX_MNT_ID, &above) == nil &&
		at.Mnt_id != above.Mnt_id
}

// giveTo gives a directory to a group.
func giveTo(dir, group string) error {
	gid, err := strconv.Atoi(group)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "volume_mount_group %q is not a number", group)
	}
	if err := os.Chown(dir, -1, gid); err != nil {
		return err
	}
	return os.Chmod(dir, 0o2775)
}
