package podbuild

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/report"
)

// Builder builds one pod and the objects next to it.
type Builder struct {
	Pod *v1.Pod
	// Origin is where the pod comes from.
	Origin  report.Field
	Report  *report.Report
	objects []Object
	// containers are pointers, so that they stay valid while more are added.
	containers []*v1.Container
	dependsOn  []string
	devices    []string
}

// New returns a builder of an empty pod. The name must be valid.
func New(name, namespace string, origin report.Field, r *report.Report) *Builder {
	return &Builder{Origin: origin, Report: r, Pod: &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
	}}
}

// AddContainer adds a container to the pod.
func (b *Builder) AddContainer(name string) *v1.Container {
	c := &v1.Container{Name: name}
	b.containers = append(b.containers, c)
	return c
}

// AddObject adds an object next to the pod.
func (b *Builder) AddObject(object any, origin report.Field) {
	b.objects = append(b.objects, Object{Value: Encode(object), Origin: origin})
}

// Meta returns the metadata of an object next to the pod.
func (b *Builder) Meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: b.Pod.Namespace}
}

// DependsOn adds a pod that must be up before this one.
func (b *Builder) DependsOn(name string) {
	if !slices.Contains(b.dependsOn, name) {
		b.dependsOn = append(b.dependsOn, name)
	}
}

// Annotate adds an annotation.
func (b *Builder) Annotate(key, value string) {
	if b.Pod.Annotations == nil {
		b.Pod.Annotations = map[string]string{}
	}
	b.Pod.Annotations[key] = value
}

// Unit returns the pod and its objects.
func (b *Builder) Unit() Unit {
	pod := b.Pod
	pod.Spec.Containers = nil
	for _, c := range b.containers {
		pod.Spec.Containers = append(pod.Spec.Containers, *c)
	}
	if pod.Spec.HostPID {
		pod.Spec.ShareProcessNamespace = nil // the host's process 1 reaps
	}
	if len(b.dependsOn) > 0 {
		b.Annotate(podinfo.AnnotationDependsOn, strings.Join(b.dependsOn, ", "))
	}
	if len(b.devices) > 0 {
		b.Annotate(podinfo.AnnotationAllowDevices, strings.Join(b.devices, ", "))
	}
	objects := append([]Object{{Value: Encode(pod), Origin: b.Origin}}, b.objects...)
	return Unit{Name: pod.Name, Objects: objects}
}

// Security returns the security context of a container, which it creates.
func Security(c *v1.Container) *v1.SecurityContext {
	if c.SecurityContext == nil {
		c.SecurityContext = &v1.SecurityContext{}
	}
	return c.SecurityContext
}

// PodSecurity returns the security context of the pod, which it creates.
func (b *Builder) PodSecurity() *v1.PodSecurityContext {
	if b.Pod.Spec.SecurityContext == nil {
		b.Pod.Spec.SecurityContext = &v1.PodSecurityContext{}
	}
	return b.Pod.Spec.SecurityContext
}

// SetLimit sets a limit of a container.
func SetLimit(c *v1.Container, name v1.ResourceName, q resource.Quantity) {
	if c.Resources.Limits == nil {
		c.Resources.Limits = v1.ResourceList{}
	}
	c.Resources.Limits[name] = q
}

// SetRequest sets a request of a container.
func SetRequest(c *v1.Container, name v1.ResourceName, q resource.Quantity) {
	if c.Resources.Requests == nil {
		c.Resources.Requests = v1.ResourceList{}
	}
	c.Resources.Requests[name] = q
}

// AddPorts adds published ports to a container.
func (b *Builder) AddPorts(c *v1.Container, ports []docker.Port) {
	for _, p := range ports {
		port := v1.ContainerPort{ContainerPort: p.Container, HostPort: p.Host, HostIP: p.HostIP}
		if p.Protocol != "tcp" {
			port.Protocol = v1.Protocol(strings.ToUpper(p.Protocol))
		}
		if p.HostIP == "0.0.0.0" || p.HostIP == "::" {
			port.HostIP = ""
		}
		same := func(o v1.ContainerPort) bool {
			return o.ContainerPort == port.ContainerPort && o.Protocol == port.Protocol && (o == port || port.HostPort == 0)
		}
		if !slices.ContainsFunc(c.Ports, same) {
			c.Ports = append(c.Ports, port)
		}
	}
}

// AddVolume adds a volume to the pod, unless it has one of the same name and source, and returns
// its name.
func (b *Builder) AddVolume(hint string, source v1.VolumeSource) string {
	name := Name(hint)
	for i := 2; ; i++ {
		at := slices.IndexFunc(b.Pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name })
		if at < 0 {
			b.Pod.Spec.Volumes = append(b.Pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
			return name
		}
		if equalSources(&b.Pod.Spec.Volumes[at].VolumeSource, &source) {
			return name
		}
		name = Name(fmt.Sprintf("%.55s-%d", Name(hint), i))
	}
}

// equalSources reports whether two volumes are the same directory of the host or the same claim.
// Two emptyDir volumes never are.
func equalSources(a, b *v1.VolumeSource) bool {
	switch {
	case a.HostPath != nil && b.HostPath != nil:
		return a.HostPath.Path == b.HostPath.Path
	case a.PersistentVolumeClaim != nil && b.PersistentVolumeClaim != nil:
		return a.PersistentVolumeClaim.ClaimName == b.PersistentVolumeClaim.ClaimName
	case a.ConfigMap != nil && b.ConfigMap != nil:
		return a.ConfigMap.Name == b.ConfigMap.Name
	case a.Secret != nil && b.Secret != nil:
		return a.Secret.SecretName == b.Secret.SecretName
	}
	return false
}

// AddDevice lets a container open a device of the host.
func (b *Builder) AddDevice(c *v1.Container, f report.Field, d docker.Device) {
	kind := v1.HostPathCharDev
	name := b.AddVolume("device-"+d.Host[strings.LastIndexByte(d.Host, '/')+1:],
		v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: d.Host, Type: &kind}})
	c.VolumeMounts = append(c.VolumeMounts,
		v1.VolumeMount{Name: name, MountPath: d.Container, ReadOnly: d.Permissions == "r"})
	if !podinfo.IsPrivileged(c) && !slices.Contains(b.devices, name) {
		b.devices = append(b.devices, name)
	}
	if strings.Contains(d.Permissions, "m") {
		b.Report.Note(f, "the container may not create this device with mknod", "")
	}
}

// AddTmpfs mounts memory into a container; size 0 is no limit.
func (b *Builder) AddTmpfs(c *v1.Container, target string, size int64) {
	source := &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
	if size > 0 {
		q := docker.BytesQuantity(size)
		source.SizeLimit = &q
	}
	name := b.AddVolume("tmpfs-"+strings.Trim(target, "/"), v1.VolumeSource{EmptyDir: source})
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: target})
}

// Containers returns the containers so far.
func (b *Builder) Containers() []*v1.Container { return b.containers }
