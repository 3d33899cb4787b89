package manifest

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// References returns the objects that a pod refers to, each once.
func References(pod *v1.Pod) []ObjectRef {
	refs := references{namespace: pod.Namespace}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		refs.addContainer(c)
	}
	for i := range pod.Spec.Volumes {
		refs.addVolume(&pod.Spec.Volumes[i])
	}
	for _, secret := range pod.Spec.ImagePullSecrets {
		refs.add(KindSecret, secret.Name)
	}
	refs.addClass(KindPriorityClass, pod.Spec.PriorityClassName)
	if class := pod.Spec.RuntimeClassName; class != nil {
		refs.addClass(KindRuntimeClass, *class)
	}
	return refs.found
}

// RequiredReferences returns the references that are not optional, without pull
// secrets and classes: a missing one of these is reported elsewhere.
func RequiredReferences(pod *v1.Pod) []ObjectRef {
	refs := references{namespace: pod.Namespace, required: true}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		refs.addContainer(c)
	}
	for i := range pod.Spec.Volumes {
		refs.addVolume(&pod.Spec.Volumes[i])
	}
	return refs.found
}

// ContainerReferences returns the ConfigMaps and Secrets from which the environment
// variables of a container and the volumes that it mounts are made.
func ContainerReferences(pod *v1.Pod, c *v1.Container) []ObjectRef {
	refs := references{namespace: pod.Namespace}
	refs.addContainer(c)
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if hasFiles(volume) && slices.ContainsFunc(c.VolumeMounts,
			func(m v1.VolumeMount) bool { return m.Name == volume.Name }) {
			refs.addVolume(volume)
		}
	}
	return refs.found
}

// FixedReferences returns the ConfigMaps and Secrets whose content a container gets once, when
// it is created: in environment variables, and in files that are mounted by a subPath.
func FixedReferences(pod *v1.Pod, c *v1.Container) []ObjectRef {
	refs := references{namespace: pod.Namespace}
	refs.addContainer(c)
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if hasFiles(volume) && slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool {
			return m.Name == volume.Name && (m.SubPath != "" || m.SubPathExpr != "")
		}) {
			refs.addVolume(volume)
		}
	}
	return refs.found
}

// hasFiles reports whether the files of a volume are made from the objects to which it refers.
func hasFiles(volume *v1.Volume) bool {
	return volume.PersistentVolumeClaim == nil && volume.CSI == nil
}

// references collects the objects to which a pod of a namespace refers.
type references struct {
	namespace string
	// required skips optional references.
	required bool
	found    []ObjectRef
	// seen has what is in found: a pod may refer to thousands of objects.
	seen map[ObjectRef]struct{}
}

func (r *references) addRef(ref ObjectRef) {
	if _, known := r.seen[ref]; known || ref.Name == "" {
		return
	}
	if r.seen == nil {
		r.seen = map[ObjectRef]struct{}{}
	}
	r.seen[ref] = struct{}{}
	r.found = append(r.found, ref)
}

func (r *references) addUnlessOptional(optional *bool, kind, name string) {
	if !r.required || optional == nil || !*optional {
		r.add(kind, name)
	}
}

func (r *references) add(kind, name string) {
	r.addRef(ObjectRef{Kind: kind, Namespace: r.namespace, Name: name})
}

func (r *references) addClass(kind, name string) {
	r.addRef(ObjectRef{Kind: kind, Name: name})
}

// addContainer adds the references in a container's environment variables.
func (r *references) addContainer(c *v1.Container) {
	for i := range c.EnvFrom {
		if ref := c.EnvFrom[i].ConfigMapRef; ref != nil {
			r.addUnlessOptional(ref.Optional, KindConfigMap, ref.Name)
		}
		if ref := c.EnvFrom[i].SecretRef; ref != nil {
			r.addUnlessOptional(ref.Optional, KindSecret, ref.Name)
		}
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if ref := from.ConfigMapKeyRef; ref != nil {
			r.addUnlessOptional(ref.Optional, KindConfigMap, ref.Name)
		}
		if ref := from.SecretKeyRef; ref != nil {
			r.addUnlessOptional(ref.Optional, KindSecret, ref.Name)
		}
	}
}

// addVolume adds the references of a volume.
func (r *references) addVolume(volume *v1.Volume) {
	switch {
	case volume.ConfigMap != nil:
		r.addUnlessOptional(volume.ConfigMap.Optional, KindConfigMap, volume.ConfigMap.Name)
	case volume.Secret != nil:
		r.addUnlessOptional(volume.Secret.Optional, KindSecret, volume.Secret.SecretName)
	case volume.PersistentVolumeClaim != nil:
		r.add(KindClaim, volume.PersistentVolumeClaim.ClaimName)
	case volume.CSI != nil && volume.CSI.NodePublishSecretRef != nil:
		r.add(KindSecret, volume.CSI.NodePublishSecretRef.Name)
	case volume.Projected != nil:
		for i := range volume.Projected.Sources {
			if source := volume.Projected.Sources[i].ConfigMap; source != nil {
				r.addUnlessOptional(source.Optional, KindConfigMap, source.Name)
			}
			if source := volume.Projected.Sources[i].Secret; source != nil {
				r.addUnlessOptional(source.Optional, KindSecret, source.Name)
			}
		}
	}
}

// KeyRef is a key of a ConfigMap or Secret.
type KeyRef struct {
	ObjectRef
	Key string
}

// String names the key and its object.
func (k KeyRef) String() string { return "key " + k.Key + " of " + k.ObjectRef.String() }

// RequiredKeys returns the keys that a pod requires of ConfigMaps and Secrets: those of
// environment variables and of volumes with items, without optional ones.
func RequiredKeys(pod *v1.Pod) []KeyRef {
	var keys []KeyRef
	seen := map[KeyRef]bool{}
	add := func(optional *bool, kind, name, key string) {
		ref := KeyRef{ObjectRef{Kind: kind, Namespace: pod.Namespace, Name: name}, key}
		if (optional == nil || !*optional) && !seen[ref] {
			seen[ref] = true
			keys = append(keys, ref)
		}
	}
	items := func(optional *bool, kind, name string, list []v1.KeyToPath) {
		for i := range list {
			add(optional, kind, name, list[i].Key)
		}
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.AllContainers) {
		for i := range c.Env {
			from := c.Env[i].ValueFrom
			if from == nil {
				continue
			}
			if ref := from.ConfigMapKeyRef; ref != nil {
				add(ref.Optional, KindConfigMap, ref.Name, ref.Key)
			}
			if ref := from.SecretKeyRef; ref != nil {
				add(ref.Optional, KindSecret, ref.Name, ref.Key)
			}
		}
	}
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].ConfigMap; source != nil {
			items(source.Optional, KindConfigMap, source.Name, source.Items)
		}
		if source := pod.Spec.Volumes[i].Secret; source != nil {
			items(source.Optional, KindSecret, source.SecretName, source.Items)
		}
		if projected := pod.Spec.Volumes[i].Projected; projected != nil {
			for j := range projected.Sources {
				if source := projected.Sources[j].ConfigMap; source != nil {
					items(source.Optional, KindConfigMap, source.Name, source.Items)
				}
				if source := projected.Sources[j].Secret; source != nil {
					items(source.Optional, KindSecret, source.Name, source.Items)
				}
			}
		}
	}
	return keys
}
