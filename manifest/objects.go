package manifest

import (
	"cmp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/internal/wakeup"
)

// The kinds of objects that manifests can declare next to pods.
const (
	KindConfigMap     = "ConfigMap"
	KindSecret        = "Secret"
	KindClaim         = "PersistentVolumeClaim"
	KindService       = "Service"
	KindPriorityClass = "PriorityClass"
	KindRuntimeClass  = "RuntimeClass"
	KindVolume        = "PersistentVolume"
	KindStorageClass  = "StorageClass"
)

// ObjectRef names an object. Namespace is empty for a class and a PersistentVolume.
type ObjectRef struct{ Kind, Namespace, Name string }

// String returns "Kind namespace/name", or "Kind name" without a namespace.
func (r ObjectRef) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// compare orders by kind, namespace and name.
func (r ObjectRef) compare(other ObjectRef) int {
	return cmp.Or(cmp.Compare(r.Kind, other.Kind), cmp.Compare(r.Namespace, other.Namespace),
		cmp.Compare(r.Name, other.Name))
}

// Object is one accepted object of a unit other than a pod. Exactly one of the
// pointers is set.
type Object struct {
	// Digest is the sha256, in hex, of the document as decoded.
	Digest        string                      `json:"digest"`
	ConfigMap     *v1.ConfigMap               `json:"configMap,omitempty"`
	Secret        *v1.Secret                  `json:"secret,omitempty"`
	Claim         *v1.PersistentVolumeClaim   `json:"claim,omitempty"`
	Service       *v1.Service                 `json:"service,omitempty"`
	PriorityClass *schedulingv1.PriorityClass `json:"priorityClass,omitempty"`
	RuntimeClass  *nodev1.RuntimeClass        `json:"runtimeClass,omitempty"`
	Volume        *v1.PersistentVolume        `json:"volume,omitempty"`
	StorageClass  *storagev1.StorageClass     `json:"storageClass,omitempty"`
}

// Value returns the object itself; nil for the zero Object.
func (o *Object) Value() metav1.Object {
	_, value := o.content()
	return value
}

// Ref returns the reference to the object.
func (o *Object) Ref() ObjectRef {
	kind, meta := o.content()
	if meta == nil {
		return ObjectRef{}
	}
	return ObjectRef{Kind: kind, Namespace: meta.GetNamespace(), Name: meta.GetName()}
}

// Keys returns the sorted keys in the data of a ConfigMap or Secret.
func (o *Object) Keys() []string {
	var keys []string
	switch {
	case o.ConfigMap != nil:
		for key := range o.ConfigMap.Data {
			keys = append(keys, key)
		}
		for key := range o.ConfigMap.BinaryData {
			keys = append(keys, key)
		}
	case o.Secret != nil:
		for key := range o.Secret.Data {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Objects holds the objects in effect that manifests declare next to pods, over
// all sources. Only PodConfig writes it. All methods are safe for concurrent
// use; what they return is shared and must not be written to.
//
// The resourceVersion of an object is its revision: it covers the content
// without the metadata, and does not reveal the content.
type Objects struct {
	mu          sync.Mutex
	entries     map[ObjectRef]*objectEntry
	subscribers wakeup.Broadcast
}

// objectEntry is one object in effect and its origin.
type objectEntry struct {
	object   Object
	source   Source
	unit     string
	revision string
}

func newObjects() *Objects {
	return &Objects{entries: map[ObjectRef]*objectEntry{}}
}

func (o *Objects) get(kind, namespace, name string) Object {
	o.mu.Lock()
	defer o.mu.Unlock()
	if entry := o.entries[ObjectRef{Kind: kind, Namespace: namespace, Name: name}]; entry != nil {
		return entry.object
	}
	return Object{}
}

// ConfigMap returns the ConfigMap of that name, and whether it exists.
func (o *Objects) ConfigMap(namespace, name string) (*v1.ConfigMap, bool) {
	found := o.get(KindConfigMap, namespace, name).ConfigMap
	return found, found != nil
}

// ConfigMaps returns all ConfigMaps in effect, sorted by namespace and name.
// They are shared and must not be written to.
func (o *Objects) ConfigMaps() []*v1.ConfigMap {
	return objectsOf(o, func(e *Object) *v1.ConfigMap { return e.ConfigMap })
}

// Secrets returns all Secrets in effect, like ConfigMaps.
func (o *Objects) Secrets() []*v1.Secret {
	return objectsOf(o, func(e *Object) *v1.Secret { return e.Secret })
}

// Claims returns all PersistentVolumeClaims in effect, like ConfigMaps.
func (o *Objects) Claims() []*v1.PersistentVolumeClaim {
	return objectsOf(o, func(e *Object) *v1.PersistentVolumeClaim { return e.Claim })
}

// Services returns all Services in effect, like ConfigMaps.
func (o *Objects) Services() []*v1.Service {
	return objectsOf(o, func(e *Object) *v1.Service { return e.Service })
}

// objectsOf returns the objects of one kind; pick returns nil for every other
// kind.
func objectsOf[T any](o *Objects, pick func(*Object) *T) []*T {
	var found []*T
	for _, entry := range o.sorted() {
		if one := pick(&entry.object); one != nil {
			found = append(found, one)
		}
	}
	return found
}

// Secret returns the Secret of that name, and whether it exists. All values are
// in Data; StringData is empty.
func (o *Objects) Secret(namespace, name string) (*v1.Secret, bool) {
	found := o.get(KindSecret, namespace, name).Secret
	return found, found != nil
}

// Claim returns the PersistentVolumeClaim of that name, and whether it exists.
func (o *Objects) Claim(namespace, name string) (*v1.PersistentVolumeClaim, bool) {
	found := o.get(KindClaim, namespace, name).Claim
	return found, found != nil
}

// PriorityClass returns the class of that name, and whether a manifest declares
// it.
func (o *Objects) PriorityClass(name string) (*schedulingv1.PriorityClass, bool) {
	found := o.get(KindPriorityClass, "", name).PriorityClass
	return found, found != nil
}

// PriorityClasses returns all classes that manifests declare, sorted by name.
func (o *Objects) PriorityClasses() []*schedulingv1.PriorityClass {
	return objectsOf(o, func(e *Object) *schedulingv1.PriorityClass { return e.PriorityClass })
}

// RuntimeClass returns the class of that name, and whether a manifest declares
// it.
func (o *Objects) RuntimeClass(name string) (*nodev1.RuntimeClass, bool) {
	found := o.get(KindRuntimeClass, "", name).RuntimeClass
	return found, found != nil
}

// RuntimeClasses returns all classes that manifests declare, like PriorityClasses.
func (o *Objects) RuntimeClasses() []*nodev1.RuntimeClass {
	return objectsOf(o, func(e *Object) *nodev1.RuntimeClass { return e.RuntimeClass })
}

// Volumes returns all PersistentVolumes that manifests declare, like PriorityClasses.
func (o *Objects) Volumes() []*v1.PersistentVolume {
	return objectsOf(o, func(e *Object) *v1.PersistentVolume { return e.Volume })
}

// StorageClasses returns all classes that manifests declare, like PriorityClasses.
func (o *Objects) StorageClasses() []*storagev1.StorageClass {
	return objectsOf(o, func(e *Object) *storagev1.StorageClass { return e.StorageClass })
}

// Missing returns why an object does not exist, as a phrase that follows its
// name, and what to do.
func (o *Objects) Missing(ObjectRef) (what, remedy string) {
	return "is in no manifest", "add it to the manifests"
}

// ObjectView describes one object in effect without its contents.
type ObjectView struct {
	ObjectRef
	Source Source
	// Unit is the file path or URL that declares it.
	Unit string
	// Revision changes with the content.
	Revision string
	// Keys are the sorted keys in the data of a ConfigMap or Secret.
	Keys []string
	// Type is the type of a Secret.
	Type string
}

// List returns all objects, sorted by kind, namespace and name.
func (o *Objects) List() []ObjectView {
	entries := o.sorted()
	views := make([]ObjectView, 0, len(entries))
	for _, entry := range entries {
		view := ObjectView{ObjectRef: entry.object.Ref(), Source: entry.source, Unit: entry.unit, Revision: entry.revision,
			Keys: entry.object.Keys()}
		if entry.object.Secret != nil {
			view.Type = string(entry.object.Secret.Type)
		}
		views = append(views, view)
	}
	return views
}

func (o *Objects) sorted() []*objectEntry {
	o.mu.Lock()
	defer o.mu.Unlock()
	entries := make([]*objectEntry, 0, len(o.entries))
	for _, entry := range o.entries {
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b *objectEntry) int { return a.object.Ref().compare(b.object.Ref()) })
	return entries
}

// Subscribe returns a channel that is notified (capacity 1, coalescing) after
// an object was added, removed or changed, and a function that ends the
// subscription.
func (o *Objects) Subscribe() (<-chan struct{}, func()) { return o.subscribers.Subscribe() }

// replace replaces all objects, and notifies the subscribers if any object
// changed.
func (o *Objects) replace(entries map[ObjectRef]*objectEntry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed := len(entries) != len(o.entries)
	for ref, entry := range entries {
		before := o.entries[ref]
		changed = changed || before == nil || before.object.Digest != entry.object.Digest
	}
	o.entries = entries
	if changed {
		o.subscribers.Notify()
	}
}

// inEffect returns the entries. The map is never written to.
func (o *Objects) inEffect() map[ObjectRef]*objectEntry {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.entries
}
