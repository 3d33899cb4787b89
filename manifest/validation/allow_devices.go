package validation

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// invalidAllowDevices finds entries of podstead.io/allow-devices that are no device volumes of the
// pod. A pod of an API server is not checked: the annotation has no effect there.
func invalidAllowDevices(pod *v1.Pod) (errs field.ErrorList) {
	names, ok := podinfo.AllowedDevices(pod)
	if !ok {
		return nil
	}
	path := field.NewPath("metadata", "annotations").Key(podinfo.AnnotationAllowDevices)
	value := pod.Annotations[podinfo.AnnotationAllowDevices]
	if strings.TrimSpace(value) == "" {
		return field.ErrorList{field.Invalid(path, value,
			"names no volume; list volumes separated by commas, or remove the annotation")}
	}
	for _, name := range names {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
		switch {
		case i < 0:
			errs = append(errs, field.Invalid(path, value,
				Quote(name)+" is not a volume of this pod; name volumes of type CharDevice or BlockDevice, separated by commas"))
		case pod.Spec.Volumes[i].HostPath == nil:
			errs = append(errs, field.Invalid(path, value,
				"volume "+Quote(name)+" is not a hostPath; name only volumes of type CharDevice or BlockDevice"))
		case !podinfo.IsDeviceVolume(&pod.Spec.Volumes[i]):
			errs = append(errs, field.Invalid(path, value,
				"volume "+Quote(name)+" is not of type CharDevice or BlockDevice; set the type of its hostPath, or remove it "+
					"from the annotation"))
		}
	}
	return errs
}

// openDevices are those that each container may open: those of the OCI specification, and tun, which
// runc and crun add.
var openDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
	"/dev/ptmx", "/dev/net/tun"}

// checkDeviceVolumes finds devices that a container mounts and cannot open.
func (d *warningCollector) checkDeviceVolumes(pod *v1.Pod, path *field.Path, c *v1.Container) {
	if podinfo.IsPrivileged(c) {
		return
	}
	allowed, _ := podinfo.AllowedDevices(pod)
	for i := range c.VolumeMounts {
		name := c.VolumeMounts[i].Name
		k := slices.IndexFunc(d.spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
		if k < 0 || !podinfo.IsDeviceVolume(&d.spec.Volumes[k]) || slices.Contains(allowed, name) ||
			slices.Contains(openDevices, d.spec.Volumes[k].HostPath.Path) {
			continue
		}
		d.warn(path.Child("volumeMounts").Index(i),
			"the container cannot open the device "+d.spec.Volumes[k].HostPath.Path+": its device cgroup does not allow it",
			"add the annotation "+podinfo.AnnotationAllowDevices+": "+name+
				", or request the device as a resource (docs/devices.md)")
	}
}
