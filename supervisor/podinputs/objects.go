package podinputs

import (
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

// NoObjects has none: for a resolver that was given none, and for pods of an API
// server without a cluster, which never see what manifests of this node declare.
type NoObjects struct{}

func (NoObjects) ConfigMap(string, string) (*v1.ConfigMap, bool)           { return nil, false }
func (NoObjects) Secret(string, string) (*v1.Secret, bool)                 { return nil, false }
func (NoObjects) Claim(string, string) (*v1.PersistentVolumeClaim, bool)   { return nil, false }
func (NoObjects) PriorityClass(string) (*schedulingv1.PriorityClass, bool) { return nil, false }
func (NoObjects) PriorityClasses() []*schedulingv1.PriorityClass           { return nil }
func (NoObjects) RuntimeClass(string) (*nodev1.RuntimeClass, bool)         { return nil, false }
func (NoObjects) Missing(manifest.ObjectRef) (what, remedy string) {
	return "is in no manifest", "add it to the manifests"
}
func (NoObjects) Subscribe() (<-chan struct{}, func()) { return nil, func() {} }

// podObjects are the objects that one pod may refer to.
type podObjects struct {
	Objects
	// bound: an API server has bound the pod to this node, and has resolved its
	// priority. It never reads manifests.
	bound bool
	// cluster is nil for every other pod, and without a cluster.
	cluster BoundObjects
}

// objectsOf returns the objects that a pod may refer to. It is the only place that
// asks where a pod comes from.
func (r *Resolver) objectsOf(pod *v1.Pod) podObjects {
	switch podinfo.SourceOf(pod) {
	case podinfo.SourceFile, podinfo.SourceHTTP:
		return podObjects{Objects: r.cfg.Objects}
	case podinfo.SourceAPI:
		if r.cfg.Bound != nil {
			return podObjects{Objects: r.cfg.Bound, bound: true, cluster: r.cfg.Bound}
		}
		return podObjects{Objects: NoObjects{}, bound: true}
	}
	return podObjects{Objects: NoObjects{}}
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
