package validation

import (
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (v *validator) volumeMounts(list *field.Path, c *v1.Container) {
	const declared = "must be the name of a volume in spec.volumes"
	paths := map[string]bool{}
	for i, mount := range c.VolumeMounts {
		at := list.Index(i)
		if v.requireSet(at.Child("name"), mount.Name, declared) && v.volumes[mount.Name] == nil {
			v.notFound(at.Child("name"), mount.Name, declared)
		}
		if v.requireSet(at.Child("mountPath"), mount.MountPath,
			"must be the directory or file in the container to mount on") {
			if paths[mount.MountPath] {
				v.invalid(at.Child("mountPath"), mount.MountPath, "must be unique among the mounts of the container")
			}
			if slices.ContainsFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return d.DevicePath == mount.MountPath }) {
				v.invalid(at.Child("mountPath"), mount.MountPath, "must not also be a path in volumeDevices")
			}
		}
		paths[mount.MountPath] = true
		if mount.Name != "" && slices.ContainsFunc(c.VolumeDevices,
			func(d v1.VolumeDevice) bool { return d.Name == mount.Name }) {
			v.invalid(at.Child("name"), mount.Name, "must not also be in volumeDevices")
		}
		v.subPaths(at, &mount)
		v.propagation(at, &mount, c)
	}
}

func (v *validator) subPaths(at *field.Path, mount *v1.VolumeMount) {
	v.localPath(at.Child("subPath"), mount.SubPath)
	v.localPath(at.Child("subPathExpr"), mount.SubPathExpr)
	if mount.SubPath != "" && mount.SubPathExpr != "" {
		v.invalid(at.Child("subPathExpr"), mount.SubPathExpr, "must not be set together with subPath; keep one of them")
	}
}

func (v *validator) propagation(at *field.Path, mount *v1.VolumeMount, c *v1.Container) {
	if mode := mount.MountPropagation; mode != nil {
		oneOf(v, at.Child("mountPropagation"), *mode,
			v1.MountPropagationNone, v1.MountPropagationHostToContainer, v1.MountPropagationBidirectional)
		privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		if *mode == v1.MountPropagationBidirectional && !privileged {
			v.forbidden(at.Child("mountPropagation"),
				"Bidirectional needs securityContext.privileged: true; set that or use HostToContainer")
		}
	}
	if mode := mount.RecursiveReadOnly; mode != nil && *mode != v1.RecursiveReadOnlyDisabled {
		at := at.Child("recursiveReadOnly")
		if *mode != v1.RecursiveReadOnlyEnabled && *mode != v1.RecursiveReadOnlyIfPossible {
			oneOf(v, at, *mode, v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled)
			return
		}
		if !mount.ReadOnly {
			v.forbidden(at, "needs readOnly: true; set that or remove the field")
		}
		if mount.MountPropagation != nil && *mount.MountPropagation != v1.MountPropagationNone {
			v.forbidden(at, "needs mountPropagation to be None or unset; remove one of them")
		}
	}
}

func (v *validator) volumeDevices(list *field.Path, c *v1.Container) {
	const claimed = "must be the name of a persistentVolumeClaim or ephemeral volume in spec.volumes"
	names, paths := map[string]bool{}, map[string]bool{}
	for i, device := range c.VolumeDevices {
		at := list.Index(i)
		named := v.requireSet(at.Child("name"), device.Name, claimed)
		if names[device.Name] {
			v.invalid(at.Child("name"), device.Name, "must be unique")
		}
		if source := v.volumes[device.Name]; source == nil && named {
			v.notFound(at.Child("name"), device.Name, claimed)
		} else if named && source.PersistentVolumeClaim == nil && source.Ephemeral == nil {
			v.invalid(at.Child("name"), device.Name, claimed)
		}
		v.devicePath(at.Child("devicePath"), device.DevicePath, paths, c.VolumeMounts)
		names[device.Name] = device.Name != ""
		if named && slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == device.Name }) {
			v.invalid(at.Child("name"), device.Name, "must not also be in volumeMounts")
		}
	}
}

func (v *validator) devicePath(at *field.Path, name string, taken map[string]bool, mounts []v1.VolumeMount) {
	if !v.requireSet(at, name, "must be the path of the device in the container") {
		return
	}
	if taken[name] {
		v.invalid(at, name, "must be unique")
	}
	taken[name] = true
	v.noParentRefs(at, name)
	if slices.ContainsFunc(mounts, func(m v1.VolumeMount) bool { return m.MountPath == name }) {
		v.invalid(at, name, "must not also be a path in volumeMounts")
	}
}

func hasParentRef(name string) bool {
	return slices.Contains(strings.Split(name, "/"), "..")
}

// noParentRefs rejects a path that contains "..".
func (v *validator) noParentRefs(at *field.Path, name string) {
	if hasParentRef(name) {
		v.invalid(at, name, "must not contain '..'")
	}
}

// localPath validates a path that must stay below its start. An empty path is
// valid.
func (v *validator) localPath(at *field.Path, name string) {
	if path.IsAbs(name) {
		v.invalid(at, name, "must be a relative path")
	}
	v.noParentRefs(at, name)
}

// fileName validates the path of a file that a volume creates. Names that begin
// with two dots are reserved for the atomic writer.
func (v *validator) fileName(at *field.Path, name string) {
	v.localPath(at, name)
	if strings.HasPrefix(name, "..") && !strings.HasPrefix(name, "../") {
		v.invalid(at, name, "must not start with '..'")
	}
}
