package supervisor

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// Objects are what pods refer to: of their own namespace, and the classes. What
// it returns is shared and must not be written to. The resourceVersion of an
// object is its revision. Implemented by manifest.Objects.
type Objects interface {
	ConfigMap(namespace, name string) (*v1.ConfigMap, bool)
	// Secret has all in Data.
	Secret(namespace, name string) (*v1.Secret, bool)
	Claim(namespace, name string) (*v1.PersistentVolumeClaim, bool)
	PriorityClass(name string) (*schedulingv1.PriorityClass, bool)
	// PriorityClasses are all, in the order of their names.
	PriorityClasses() []*schedulingv1.PriorityClass
	RuntimeClass(name string) (*nodev1.RuntimeClass, bool)
	// Missing says of an object that was not found why that is, as what follows
	// its name in a sentence, and what to do.
	Missing(ref manifest.ObjectRef) (what, remedy string)
	// Subscribe wakes after an object came, went or changed, until the
	// function is called.
	Subscribe() (<-chan struct{}, func())
}

// noObjects is for a supervisor that was given none, and for pods of an API
// server, which never see what manifests of this node declare.
type noObjects struct{}

func (noObjects) ConfigMap(string, string) (*v1.ConfigMap, bool)           { return nil, false }
func (noObjects) Secret(string, string) (*v1.Secret, bool)                 { return nil, false }
func (noObjects) Claim(string, string) (*v1.PersistentVolumeClaim, bool)   { return nil, false }
func (noObjects) PriorityClass(string) (*schedulingv1.PriorityClass, bool) { return nil, false }
func (noObjects) PriorityClasses() []*schedulingv1.PriorityClass           { return nil }
func (noObjects) RuntimeClass(string) (*nodev1.RuntimeClass, bool)         { return nil, false }
func (noObjects) Missing(manifest.ObjectRef) (what, remedy string) {
	return "is in no manifest", "add it to the manifests"
}
func (noObjects) Subscribe() (<-chan struct{}, func()) { return nil, func() {} }

// objectsFor are the objects that a pod may refer to.
func (s *podSyncer) objectsFor(pod *v1.Pod) Objects {
	switch podinfo.SourceOf(pod) {
	case manifest.SourceFile, manifest.SourceHTTP:
		return s.cfg.Sources.Objects
	case manifest.SourceAPI:
		if s.cfg.Sources.Bound != nil {
			return s.cfg.Sources.Bound
		}
	}
	return noObjects{}
}

// objectRevision is the revision of what a reference leads to; empty if it
// leads to nothing.
func objectRevision(objects Objects, ref manifest.ObjectRef) string {
	switch ref.Kind {
	case manifest.KindConfigMap:
		if found, ok := objects.ConfigMap(ref.Namespace, ref.Name); ok {
			return found.ResourceVersion
		}
	case manifest.KindSecret:
		if found, ok := objects.Secret(ref.Namespace, ref.Name); ok {
			return found.ResourceVersion
		}
	case manifest.KindClaim:
		if found, ok := objects.Claim(ref.Namespace, ref.Name); ok {
			return found.ResourceVersion
		}
	case manifest.KindPriorityClass:
		if found, ok := objects.PriorityClass(ref.Name); ok {
			return found.ResourceVersion
		}
	case manifest.KindRuntimeClass:
		if found, ok := objects.RuntimeClass(ref.Name); ok {
			return found.ResourceVersion
		}
	}
	return ""
}

// References are the objects that a pod refers to, each once.
func References(pod *v1.Pod) []manifest.ObjectRef { return podReferences(pod) }

// podReferences are the objects that a pod refers to, each once, those of its
// containers' env included.
func podReferences(pod *v1.Pod) []manifest.ObjectRef {
	refs := references{namespace: pod.Namespace}
	eachContainer(pod, func(c *v1.Container) { refs.ofContainer(c) })
	for i := range pod.Spec.EphemeralContainers {
		refs.ofContainer((*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
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

func eachContainer(pod *v1.Pod, visit func(*v1.Container)) {
	for i := range pod.Spec.InitContainers {
		visit(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		visit(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		visit((*v1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
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

// objectsText is what the pod's references lead to, with the revisions: it
// changes when the pod has to be looked at again.
func (s *podSyncer) objectsText(pod *v1.Pod) string {
	if bound := s.boundFor(pod); bound != nil {
		state, _ := bound.State(pod)
		return state
	}
	refs := podReferences(pod)
	if len(refs) == 0 {
		return ""
	}
	objects := s.objectsFor(pod)
	var text strings.Builder
	for _, ref := range refs {
		text.WriteString(ref.String() + "=" + objectRevision(objects, ref) + "\n")
	}
	return text.String()
}

// refreshObjects wakes the pods that were last synced with other objects.
func (s *Supervisor) refreshObjects() {
	for _, pod := range s.wanted.list() {
		seen, _ := s.podSyncer.seenObjects.Load(pod.UID)
		if text, _ := seen.(string); text != s.podSyncer.objectsText(pod) {
			s.workers.wake(pod.UID)
		}
	}
}
