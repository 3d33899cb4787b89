package validation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Warnings returns what the API accepts in a defaulted pod although it cannot
// work, or does not work as it reads. They are warnings, so that whatever
// Kubernetes accepts is accepted here.
func Warnings(pod *v1.Pod) []FieldFault {
	d := &warningCollector{spec: &pod.Spec}
	d.checkAnnotations(pod.Annotations)
	d.checkAutoUpdate(pod.Annotations[podinfo.AnnotationAutoUpdate])
	spec := field.NewPath("spec")
	for path, c := range containerPaths(spec, d.spec) {
		d.checkContainer(path, c)
		d.checkDeviceVolumes(pod, path, c)
	}
	for i := range d.spec.Volumes {
		d.checkVolume(spec.Child("volumes").Index(i), &d.spec.Volumes[i])
	}
	return d.warnings
}

// warningCollector collects the warnings about one pod.
type warningCollector struct {
	spec     *v1.PodSpec
	warnings []FieldFault
}

func (d *warningCollector) warn(path *field.Path, problem, remedy string) {
	d.warnings = append(d.warnings, FieldFault{Path: path.String(), Problem: problem, Remedy: remedy, Warning: true})
}

func (d *warningCollector) checkContainer(path *field.Path, c *v1.Container) {
	d.checkRootUser(path, c)
	d.checkImage(path.Child("image"), c.Image)
	d.checkMemory(path.Child("resources", "limits").Key("memory"), c.Resources.Limits)
	names := map[string]bool{}
	for i, variable := range c.Env {
		at := path.Child("env").Index(i)
		if names[variable.Name] {
			d.warn(at.Child("name"), Quote(variable.Name)+" is set twice, and this value overrides the earlier one",
				"remove one of them")
		}
		names[variable.Name] = true
		if variable.ValueFrom != nil {
			d.checkResourceRef(at.Child("valueFrom", "resourceFieldRef"), variable.ValueFrom.ResourceFieldRef)
		}
	}
	for name, probe := range map[string]*v1.Probe{
		"livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe, "startupProbe": c.StartupProbe,
	} {
		if probe != nil {
			d.checkPorts(path.Child(name), c, probe.HTTPGet, probe.TCPSocket)
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for name, hook := range map[string]*v1.LifecycleHandler{"postStart": c.Lifecycle.PostStart,
		"preStop": c.Lifecycle.PreStop} {
		if hook != nil {
			d.checkPorts(path.Child("lifecycle", name), c, hook.HTTPGet, hook.TCPSocket)
		}
	}
}

// smallestMemory is less than any container needs to start, in bytes.
const smallestMemory = 1 << 20

// checkMemory finds a limit without a unit: no container starts with so little memory, and the runtime's
// error does not name the limit.
func (d *warningCollector) checkMemory(path *field.Path, limits v1.ResourceList) {
	limit, ok := limits[v1.ResourceMemory]
	if !ok || limit.IsZero() || limit.Cmp(*resource.NewQuantity(smallestMemory, resource.BinarySI)) >= 0 {
		return
	}
	d.warn(path, fmt.Sprintf("%s is %d bytes, and no container starts with less than 1Mi", limit.String(), limit.Value()),
		"add the unit, such as 64Mi")
}

// checkRootUser finds a container that has to run as root but may not. Like
// runAsUser, runAsNonRoot of the container overrides that of the pod.
func (d *warningCollector) checkRootUser(path *field.Path, c *v1.Container) {
	var user *int64
	var nonRoot *bool
	at := field.NewPath("spec", "securityContext", "runAsUser")
	if sc := d.spec.SecurityContext; sc != nil {
		user, nonRoot = sc.RunAsUser, sc.RunAsNonRoot
	}
	if sc := c.SecurityContext; sc != nil {
		if sc.RunAsUser != nil {
			user, at = sc.RunAsUser, path.Child("securityContext", "runAsUser")
		}
		if sc.RunAsNonRoot != nil {
			nonRoot = sc.RunAsNonRoot
		}
	}
	if user != nil && *user == 0 && nonRoot != nil && *nonRoot {
		d.warn(at, "0 is root, and runAsNonRoot: true does not let the container start as root",
			"set another user or runAsNonRoot: false")
	}
}

// checkPorts finds a port name that is not declared: the probe or hook can
// never succeed.
func (d *warningCollector) checkPorts(path *field.Path, c *v1.Container, get *v1.HTTPGetAction,
	socket *v1.TCPSocketAction) {
	if get != nil {
		d.checkPort(path.Child("httpGet", "port"), c, get.Port)
	}
	if socket != nil {
		d.checkPort(path.Child("tcpSocket", "port"), c, socket.Port)
	}
}

func (d *warningCollector) checkPort(path *field.Path, c *v1.Container, port intstr.IntOrString) {
	named := func(p v1.ContainerPort) bool { return p.Name == port.StrVal }
	if port.Type == intstr.String && !slices.ContainsFunc(c.Ports, named) {
		d.warn(path, fmt.Sprintf("container %q has no port named %q", c.Name, port.StrVal),
			"give one of its ports that name, or use the number")
	}
}

// checkImage finds a name that no registry can have: the pod would wait with
// InvalidImageName.
func (d *warningCollector) checkImage(path *field.Path, image string) {
	if image == "" {
		return
	}
	_, err := reference.ParseNormalizedNamed(image)
	if err == nil {
		return
	}
	_, rest, scheme := strings.Cut(image, "://")
	switch {
	case strings.Contains(image, "${") || strings.Contains(image, "$(") || strings.Contains(image, "{{"):
		d.warn(path, Quote(image)+" has a placeholder that nothing replaces",
			"write the image's name, or render the template (for example with envsubst)")
	case scheme:
		d.warn(path, Quote(image)+" is a URL", "write the image without the scheme: "+rest)
	case strings.ContainsAny(image, " \t"):
		d.warn(path, Quote(image)+" contains a space", "remove it: an image is HOST/REPOSITORY:TAG")
	default:
		d.warn(path, Quote(image)+" is not a valid image: "+err.Error(),
			"write it as HOST/REPOSITORY:TAG, in lower case except for the tag")
	}
}

func (d *warningCollector) checkVolume(path *field.Path, volume *v1.Volume) {
	if host := volume.HostPath; host != nil && host.Path != "" && !strings.HasPrefix(host.Path, "/") {
		d.warn(path.Child("hostPath", "path"), Quote(host.Path)+" is a relative path",
			"must be an absolute path of the host, such as /srv/data")
	}
	items := func(path *field.Path, items []v1.DownwardAPIVolumeFile) {
		for i := range items {
			d.checkResourceRef(path.Index(i).Child("resourceFieldRef"), items[i].ResourceFieldRef)
		}
	}
	if s := volume.DownwardAPI; s != nil {
		items(path.Child("downwardAPI", "items"), s.Items)
	}
	if volume.Projected == nil {
		return
	}
	for i := range volume.Projected.Sources {
		if s := volume.Projected.Sources[i].DownwardAPI; s != nil {
			items(path.Child("projected", "sources").Index(i).Child("downwardAPI", "items"), s.Items)
		}
	}
}

// checkResourceRef finds a reference to the resources of a container that does
// not exist.
func (d *warningCollector) checkResourceRef(path *field.Path, ref *v1.ResourceFieldSelector) {
	if ref == nil || ref.ContainerName == "" {
		return
	}
	if podinfo.FindContainer(d.spec, ref.ContainerName) == nil {
		d.warn(path.Child("containerName"), Quote(ref.ContainerName)+" is not a container of this pod",
			"must be the name of one of its containers")
	}
}
