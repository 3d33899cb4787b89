package manifest

import (
	"cmp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds of objects that manifests declare beside pods.
const (
	KindConfigMap     = "ConfigMap"
	KindSecret        = "Secret"
	KindClaim         = "PersistentVolumeClaim"
	KindPriorityClass = "PriorityClass"
	KindRuntimeClass  = "RuntimeClass"
)

// ObjectRef names an object. Namespace is empty for a class.
type ObjectRef struct{ Kind, Namespace, Name string }

// String is "Kind namespace/name", or "Kind name" for a class.
func (r ObjectRef) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// compare orders by kind, namespace and name.
func (r ObjectRef) compare(other ObjectRef) int {
	return cmp.Or(cmp.Compare(r.Kind, other.Kind), cmp.Compare(r.Namespace, other.Namespace), cmp.Compare(r.Name, other.Name))
}

// Object is one accepted object of a unit that is no pod. One of the pointers
// is set.
type Object struct {
	// Digest is the sha256, in hex, of the document as decoded.
	Digest        string                      `json:"digest"`
	ConfigMap     *v1.ConfigMap               `json:"configMap,omitempty"`
	Secret        *v1.Secret                  `json:"secret,omitempty"`
	Claim         *v1.PersistentVolumeClaim   `json:"claim,omitempty"`
	PriorityClass *schedulingv1.PriorityClass `json:"priorityClass,omitempty"`
	RuntimeClass  *nodev1.RuntimeClass        `json:"runtimeClass,omitempty"`
}

// content is the object's kind and the object itself; nil for the zero Object.
func (o *Object) content() (string, metav1.Object) {
	switch {
	case o.ConfigMap != nil:
		return KindConfigMap, o.ConfigMap
	case o.Secret != nil:
		return KindSecret, o.Secret
	case o.Claim != nil:
		return KindClaim, o.Claim
	case o.PriorityClass != nil:
		return KindPriorityClass, o.PriorityClass
	case o.RuntimeClass != nil:
		return KindRuntimeClass, o.RuntimeClass
	}
	return "", nil
}

// Ref is the object's name.
func (o *Object) Ref() ObjectRef {
	kind, meta := o.content()
	if meta == nil {
		return ObjectRef{}
	}
	return ObjectRef{Kind: kind, Namespace: meta.GetNamespace(), Name: meta.GetName()}
}

// keys are those of the data of a ConfigMap or Secret, sorted.
func (o *Object) keys() []string {
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

// Objects is what is in effect of the objects that manifests declare beside
// pods, over all sources. PodConfig alone writes it. All methods may be called
// at the same time; what they return is shared and must not be written to.
//
// The resourceVersion of an object is its revision: it covers the content and
// not the metadata, and does not tell what the content is.
type Objects struct {
	mu          sync.Mutex
	entries     map[ObjectRef]*objectEntry
	subscribers map[chan struct{}]struct{}
}

// objectEntry is one object in effect and where it comes from.
type objectEntry struct {
	object   Object
	source   Source
	unit     string
	revision string
}

func newObjects() *Objects {
	return &Objects{entries: map[ObjectRef]*objectEntry{}, subscribers: map[chan struct{}]struct{}{}}
}

func (o *Objects) get(kind, namespace, name string) Object {
	o.mu.Lock()
	defer o.mu.Unlock()
	if entry := o.entries[ObjectRef{Kind: kind, Namespace: namespace, Name: name}]; entry != nil {
		return entry.object
	}
	return Object{}
}

// ConfigMap is the one of that name, and whether there is one.
func (o *Objects) ConfigMap(namespace, name string) (*v1.ConfigMap, bool) {
	found := o.get(KindConfigMap, namespace, name).ConfigMap
	return found, found != nil
}

// ConfigMaps are all in effect, by namespace and name. They are shared and must
// not be written to.
func (o *Objects) ConfigMaps() []*v1.ConfigMap {
	return objectsOf(o, func(e *Object) *v1.ConfigMap { return e.ConfigMap })
}

// Secrets are all in effect, as ConfigMaps.
func (o *Objects) Secrets() []*v1.Secret {
	return objectsOf(o, func(e *Object) *v1.Secret { return e.Secret })
}

// Claims are all PersistentVolumeClaims in effect, as ConfigMaps.
func (o *Objects) Claims() []*v1.PersistentVolumeClaim {
	return objectsOf(o, func(e *Object) *v1.PersistentVolumeClaim { return e.Claim })
}

// all are the objects of one kind, of which pick is nil for every other.
func objectsOf[T any](o *Objects, pick func(*Object) *T) []*T {
	var found []*T
	for _, entry := range o.sorted() {
		if one := pick(&entry.object); one != nil {
			found = append(found, one)
		}
	}
	return found
}

// Secret is the one of that name, and whether there is one. All is in Data;
// StringData is empty.
func (o *Objects) Secret(namespace, name string) (*v1.Secret, bool) {
	found := o.get(KindSecret, namespace, name).Secret
	return found, found != nil
}

// Claim is the PersistentVolumeClaim of that name, and whether there is one.
func (o *Objects) Claim(namespace, name string) (*v1.PersistentVolumeClaim, bool) {
	found := o.get(KindClaim, namespace, name).Claim
	return found, found != nil
}

// PriorityClass is the one of that name, and whether a manifest declares one.
func (o *Objects) PriorityClass(name string) (*schedulingv1.PriorityClass, bool) {
	found := o.get(KindPriorityClass, "", name).PriorityClass
	return found, found != nil
}

// PriorityClasses are all that manifests declare, in the order of their names.
func (o *Objects) PriorityClasses() []*schedulingv1.PriorityClass {
	return objectsOf(o, func(e *Object) *schedulingv1.PriorityClass { return e.PriorityClass })
}

// RuntimeClass is the one of that name, and whether a manifest declares one.
func (o *Objects) RuntimeClass(name string) (*nodev1.RuntimeClass, bool) {
	found := o.get(KindRuntimeClass, "", name).RuntimeClass
	return found, found != nil
}

// Missing says of an object that was not found why that is, as what follows its
// name in a sentence, and what to do.
func (o *Objects) Missing(ObjectRef) (what, remedy string) {
	return "is in no manifest", "add it to the manifests"
}

// ObjectView is one object in effect as people see it: no contents.
type ObjectView struct {
	ObjectRef
	Source Source
	// Unit is the file path or URL that declares it.
	Unit string
	// Revision changes with the content.
	Revision string
	// Keys are those of the data of a ConfigMap or Secret, sorted.
	Keys []string
	// Type is that of a Secret.
	Type string
}

// List shows all objects, by kind, namespace and name.
func (o *Objects) List() []ObjectView {
	entries := o.sorted()
	views := make([]ObjectView, 0, len(entries))
	for _, entry := range entries {
		view := ObjectView{ObjectRef: entry.object.Ref(), Source: entry.source, Unit: entry.unit, Revision: entry.revision, Keys: entry.object.keys()}
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

// Subscribe returns a channel that is woken (capacity 1, coalescing) after an
// object came, went or changed, and what ends the subscription.
func (o *Objects) Subscribe() (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.subscribers[wake] = struct{}{}
	return wake, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.subscribers, wake)
	}
}

// put replaces everything, and wakes whoever subscribed if the objects are
// not the same.
func (o *Objects) replace(entries map[ObjectRef]*objectEntry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	changed := len(entries) != len(o.entries)
	for ref, entry := range entries {
		before := o.entries[ref]
		changed = changed || before == nil || before.object.Digest != entry.object.Digest
	}
	o.entries = entries
	if !changed {
		return
	}
	for wake := range o.subscribers {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// inEffect are the entries. The map is never written to.
func (o *Objects) inEffect() map[ObjectRef]*objectEntry {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.entries
}
