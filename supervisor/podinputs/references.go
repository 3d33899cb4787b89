package podinputs

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// References returns the objects that a pod refers to, each once.
func References(pod *v1.Pod) []manifest.ObjectRef {
	refs := references{namespace: pod.Namespace}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		refs.ofContainer(c)
	}
	for i := range pod.Spec.Volumes {
		refs.ofVolume(&pod.Spec.Volumes[i])
	}
	for _, secret := range pod.Spec.ImagePullSecrets {
		refs.add(manifest.KindSecret, secret.Name)
	}
	refs.addClass(manifest.KindPriorityClass, pod.Spec.PriorityClassName)
	if class := pod.Spec.RuntimeClassName; class != nil {
		refs.addClass(manifest.KindRuntimeClass, *class)
	}
	return refs.found
}

// requiredReferences are those that are not optional, but for what pulls
// images and for classes, which others settle.
func requiredReferences(pod *v1.Pod) []manifest.ObjectRef {
	refs := references{namespace: pod.Namespace, required: true}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		refs.ofContainer(c)
	}
	for i := range pod.Spec.Volumes {
		refs.ofVolume(&pod.Spec.Volumes[i])
	}
	return refs.found
}

// containerReferences are the ConfigMaps and Secrets that a container's
// variables and the volumes that it mounts are made of.
func containerReferences(pod *v1.Pod, c *v1.Container) []manifest.ObjectRef {
	refs := references{namespace: pod.Namespace}
	refs.ofContainer(c)
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.PersistentVolumeClaim == nil && slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume.Name }) {
			refs.ofVolume(volume)
		}
	}
	return refs.found
}

// references gathers what a pod of a namespace refers to.
type references struct {
	namespace string
	// required leaves out what is optional.
	required bool
	found    []manifest.ObjectRef
}

func (r *references) addRef(ref manifest.ObjectRef) {
	if ref.Name != "" && !slices.Contains(r.found, ref) {
		r.found = append(r.found, ref)
	}
}

func (r *references) addUnless(optional *bool, kind, name string) {
	if !r.required || !isTrue(optional) {
		r.add(kind, name)
	}
}

func (r *references) add(kind, name string) {
	r.addRef(manifest.ObjectRef{Kind: kind, Namespace: r.namespace, Name: name})
}

func (r *references) addClass(kind, name string) {
	r.addRef(manifest.ObjectRef{Kind: kind, Name: name})
}

// ofContainer adds what the variables of a container refer to.
func (r *references) ofContainer(c *v1.Container) {
	for i := range c.EnvFrom {
		if ref := c.EnvFrom[i].ConfigMapRef; ref != nil {
			r.addUnless(ref.Optional, manifest.KindConfigMap, ref.Name)
		}
		if ref := c.EnvFrom[i].SecretRef; ref != nil {
			r.addUnless(ref.Optional, manifest.KindSecret, ref.Name)
		}
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if ref := from.ConfigMapKeyRef; ref != nil {
			r.addUnless(ref.Optional, manifest.KindConfigMap, ref.Name)
		}
		if ref := from.SecretKeyRef; ref != nil {
			r.addUnless(ref.Optional, manifest.KindSecret, ref.Name)
		}
	}
}

func (r *references) ofVolume(volume *v1.Volume) {
	switch {
	case volume.ConfigMap != nil:
		r.addUnless(volume.ConfigMap.Optional, manifest.KindConfigMap, volume.ConfigMap.Name)
	case volume.Secret != nil:
		r.addUnless(volume.Secret.Optional, manifest.KindSecret, volume.Secret.SecretName)
	case volume.PersistentVolumeClaim != nil:
		r.add(manifest.KindClaim, volume.PersistentVolumeClaim.ClaimName)
	case volume.Projected != nil:
		for i := range volume.Projected.Sources {
			if source := volume.Projected.Sources[i].ConfigMap; source != nil {
				r.addUnless(source.Optional, manifest.KindConfigMap, source.Name)
			}
			if source := volume.Projected.Sources[i].Secret; source != nil {
				r.addUnless(source.Optional, manifest.KindSecret, source.Name)
			}
		}
	}
}
