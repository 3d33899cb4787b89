package pod

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// AnnotationAllowDevices lists the hostPath volumes of the types CharDevice and BlockDevice whose
// devices the containers that mount them may open, such as "port, disk". Without it the device
// cgroup of a container that is not privileged does not allow that.
const AnnotationAllowDevices = "podstead.io/allow-devices"

// AllowedDevices returns the entries of AnnotationAllowDevices; set is false without the annotation.
func AllowedDevices(pod *v1.Pod) (volumes []string, set bool) {
	value, set := pod.Annotations[AnnotationAllowDevices]
	if !set {
		return nil, false
	}
	for name := range strings.SplitSeq(value, ",") {
		volumes = append(volumes, strings.TrimSpace(name))
	}
	return volumes, true
}

// IsDeviceVolume reports whether a volume is a device node of the host by its type.
func IsDeviceVolume(volume *v1.Volume) bool {
	s := volume.HostPath
	return s != nil && s.Type != nil && (*s.Type == v1.HostPathCharDev || *s.Type == v1.HostPathBlockDev)
}

// IsPrivileged reports whether a container is privileged: it may open every device.
func IsPrivileged(c *v1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

// OpensDevice reports whether a container that mounts this volume gets its device opened by
// AnnotationAllowDevices. Only static pods do: what an API server permits to its pods does not know
// the annotation, and would be extended by it.
func OpensDevice(pod *v1.Pod, c *v1.Container, volume string) bool {
	if !PolicyOf(pod).Static || IsPrivileged(c) {
		return false
	}
	allowed, _ := AllowedDevices(pod)
	i := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == volume })
	return i >= 0 && slices.Contains(allowed, volume) && IsDeviceVolume(&pod.Spec.Volumes[i])
}
