package podinputs

import (
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/volume"
)

// Objects holds the objects that pods refer to: those of a pod's namespace and the
// classes. Returned objects are shared and must not be modified; their
// resourceVersion is their revision. Implemented by manifest.Objects.
type Objects interface {
	ConfigMap(namespace, name string) (*v1.ConfigMap, bool)
	// Secret returns a Secret whose Data is complete: StringData is empty.
	Secret(namespace, name string) (*v1.Secret, bool)
	Claim(namespace, name string) (*v1.PersistentVolumeClaim, bool)
	PriorityClass(name string) (*schedulingv1.PriorityClass, bool)
	// PriorityClasses returns all of them, sorted by name.
	PriorityClasses() []*schedulingv1.PriorityClass
	RuntimeClass(name string) (*nodev1.RuntimeClass, bool)
	volume.StorageObjects
	// Missing explains why an object was not found: what continues a sentence
	// that begins with the object's name, remedy reports what to do.
	Missing(ref manifest.ObjectRef) (what, remedy string)
	// Subscribe notifies after an object was added, changed or removed, until
	// the returned function is called.
	Subscribe() (<-chan struct{}, func())
}

// NoObjects is an empty Objects. It serves a resolver without objects, and API pods
// without a cluster: these never see what the manifests of this node declare.
type NoObjects struct{}

func (NoObjects) ConfigMap(string, string) (*v1.ConfigMap, bool)           { return nil, false }
func (NoObjects) Secret(string, string) (*v1.Secret, bool)                 { return nil, false }
func (NoObjects) Claim(string, string) (*v1.PersistentVolumeClaim, bool)   { return nil, false }
func (NoObjects) PriorityClass(string) (*schedulingv1.PriorityClass, bool) { return nil, false }
func (NoObjects) PriorityClasses() []*schedulingv1.PriorityClass           { return nil }
func (NoObjects) RuntimeClass(string) (*nodev1.RuntimeClass, bool)         { return nil, false }
func (NoObjects) Claims() []*v1.PersistentVolumeClaim                      { return nil }
func (NoObjects) Volumes() []*v1.PersistentVolume                          { return nil }
func (NoObjects) StorageClasses() []*storagev1.StorageClass                { return nil }
func (NoObjects) Missing(manifest.ObjectRef) (what, remedy string) {
	return "is in no manifest", "add it to the manifests"
}
func (NoObjects) Subscribe() (<-chan struct{}, func()) { return nil, func() {} }

// podObjects holds the objects that one pod may refer to.
type podObjects struct {
	Objects
	policy podinfo.SourcePolicy
	// cluster is nil for static pods, and without a cluster.
	cluster ClusterObjects
}

// objectsOf returns the objects that a pod may refer to, as the policy of its
// source reports.
func (r *Resolver) objectsOf(pod *v1.Pod) podObjects {
	objects := podObjects{Objects: NoObjects{}, policy: podinfo.PolicyOf(pod)}
	switch objects.policy.Objects {
	case podinfo.ManifestObjects:
		objects.Objects = r.cfg.Objects
	case podinfo.ClusterObjects:
		if r.cfg.ClusterObjects != nil {
			objects.Objects, objects.cluster = r.cfg.ClusterObjects, r.cfg.ClusterObjects
		}
	}
	return objects
}

// objectRevision returns the revision of a referenced object, empty if there is no
// such object.
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
