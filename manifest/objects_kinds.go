package manifest

import (
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// objectKind is a kind of objects other than pods.
type objectKind struct {
	name, version string
	// cluster: objects of the kind have no namespace.
	cluster bool
	// in returns the object of this kind in an Object; nil if that has another one.
	in func(*Object) typedObject
	// create puts an empty object into an Object, and copy a copy of the one that it has.
	create, copy func(*Object)
}

// typedObject is an object of the Kubernetes API.
type typedObject interface {
	metav1.Object
	metav1.ObjectMetaAccessor
	runtime.Object
}

// objectKinds are the kinds of objects other than pods, in the order in which messages list them.
var objectKinds = []objectKind{
	kindOf(KindConfigMap, "v1", false, func(o *Object) **v1.ConfigMap { return &o.ConfigMap }),
	kindOf(KindSecret, "v1", false, func(o *Object) **v1.Secret { return &o.Secret }),
	kindOf(KindClaim, "v1", false, func(o *Object) **v1.PersistentVolumeClaim { return &o.Claim }),
	kindOf(KindService, "v1", false, func(o *Object) **v1.Service { return &o.Service }),
	kindOf(KindPriorityClass, "scheduling.k8s.io/v1", true,
		func(o *Object) **schedulingv1.PriorityClass { return &o.PriorityClass }),
	kindOf(KindRuntimeClass, "node.k8s.io/v1", true, func(o *Object) **nodev1.RuntimeClass { return &o.RuntimeClass }),
	kindOf(KindVolume, "v1", true, func(o *Object) **v1.PersistentVolume { return &o.Volume }),
	kindOf(KindStorageClass, "storage.k8s.io/v1", true,
		func(o *Object) **storagev1.StorageClass { return &o.StorageClass }),
}

// kindOf returns the kind whose objects are at a place in an Object.
func kindOf[T any, P interface {
	*T
	typedObject
}](name, version string, cluster bool, place func(*Object) *P) objectKind {
	return objectKind{name: name, version: version, cluster: cluster,
		in: func(o *Object) typedObject {
			if typed := *place(o); typed != nil {
				return typed
			}
			return nil
		},
		create: func(o *Object) { *place(o) = new(T) },
		copy:   func(o *Object) { copied := **place(o); *place(o) = &copied },
	}
}

// kindVersions are the supported API versions of each kind.
var kindVersions = func() map[string]string {
	versions := map[string]string{kindPod: "v1", kindPodList: "v1", kindList: "v1"}
	for i := range objectKinds {
		versions[objectKinds[i].name] = objectKinds[i].version
	}
	return versions
}()

// kindNames are the names of objectKinds.
var kindNames = func() (names []string) {
	for i := range objectKinds {
		names = append(names, objectKinds[i].name)
	}
	return names
}()

// kindNamed returns the kind of a name; the zero one if it is not of such objects.
func kindNamed(name string) (found objectKind) {
	if i := slices.Index(kindNames, name); i >= 0 {
		found = objectKinds[i]
	}
	return found
}

// isClusterScoped reports whether objects of a kind have no namespace.
func isClusterScoped(kind string) bool { return kindNamed(kind).cluster }

// ObjectType returns the type of the objects of a kind, also of a Pod; nil for another kind.
func ObjectType(kind string) reflect.Type {
	k := kindNamed(kind)
	switch {
	case kind == kindPod:
		return reflect.TypeFor[v1.Pod]()
	case k.create == nil:
		return nil
	}
	var object Object
	k.create(&object)
	return reflect.TypeOf(object.Value()).Elem()
}

// content returns the kind of the object and the object itself; nil for the
// zero Object.
func (o *Object) content() (string, typedObject) {
	for i := range objectKinds {
		if typed := objectKinds[i].in(o); typed != nil {
			return objectKinds[i].name, typed
		}
	}
	return "", nil
}
