package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/manifest"
)

const (
	// maxObjects is the maximum size in bytes of all ConfigMaps and Secrets that the pods
	// of this node refer to. Each may have a megabyte, and a pod may refer to any number of
	// them. Pods that refer to more are held.
	maxObjects = 40 << 20
	// entrySize is about what a key and its value need in memory apart from their own
	// bytes: their headers, the share of the map and the rounding of two allocations. A
	// megabyte of short keys needs ten of memory.
	entrySize = 100
	// maxObjectLists is how many of them are requested at once.
	maxObjectLists = 8
)

var errObjectsTooLarge = fmt.Errorf("with it, the ConfigMaps and Secrets of the namespace's pods on this node are "+
	"larger than half of what other namespaces leave of %d MiB", maxObjects>>20)

// dataSize returns about how many bytes of memory an object's content needs.
func dataSize(found object) (size int) {
	switch f := found.(type) {
	case *v1.ConfigMap:
		for name, value := range f.Data {
			size += entrySize + len(name) + len(value)
		}
		for name, value := range f.BinaryData {
			size += entrySize + len(name) + len(value)
		}
	case *v1.Secret:
		for name, value := range f.Data {
			size += entrySize + len(name) + len(value)
		}
	}
	return size
}

// reduced returns an object with only what is read of it, and on request without its
// content. Labels, annotations and managed fields may be as large as the content.
func reduced[T object](found T, withContent bool) T {
	meta := metav1.ObjectMeta{
		Namespace: found.GetNamespace(), Name: found.GetName(), UID: found.GetUID(),
		ResourceVersion: found.GetResourceVersion(),
	}
	var kept object
	switch f := any(found).(type) {
	case *v1.ConfigMap:
		c := &v1.ConfigMap{ObjectMeta: meta, Immutable: f.Immutable}
		if withContent {
			c.Data, c.BinaryData = f.Data, f.BinaryData
		}
		kept = c
	case *v1.Secret:
		c := &v1.Secret{ObjectMeta: meta, Immutable: f.Immutable, Type: f.Type}
		if withContent {
			c.Data = f.Data
		}
		kept = c
	case *nodev1.RuntimeClass:
		kept = &nodev1.RuntimeClass{ObjectMeta: meta, Handler: f.Handler, Overhead: f.Overhead, Scheduling: f.Scheduling}
	case *v1.Service:
		kept = &v1.Service{ObjectMeta: meta, Spec: v1.ServiceSpec{ClusterIP: f.Spec.ClusterIP, Ports: f.Spec.Ports}}
	}
	if bare, ok := kept.(T); ok {
		return bare
	}
	return found
}

// fits reports whether the content of an entry's object can be kept, and counts it. If it
// cannot, the entry keeps the previous content.
func (o *Objects) fits(e *entry, found object) bool {
	size := dataSize(found)
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.dropped {
		return true
	}
	if size > e.size && !o.hasSpace(e, size) {
		e.refused = size
		return false
	}
	e.refused = 0
	o.resize(e, size)
	return true
}

// hasSpace reports whether the content of an entry may have a size. The caller holds mu.
func (o *Objects) hasSpace(e *entry, size int) bool { return o.space.fits(e.namespace, e.size, size) }

// resize sets the size of an entry's content. If that makes space, entries that were
// refused are requested again. The caller holds mu.
func (o *Objects) resize(e *entry, size int) {
	grown := size - e.size
	e.size = size
	o.space.resize(e.namespace, grown)
	if grown < 0 {
		o.retryRefused()
	}
}

// forget ends an entry. The caller holds mu.
func (o *Objects) forget(ref manifest.ObjectRef, e *entry) {
	e.stop()
	e.dropped = true
	delete(o.entries, ref)
	o.resize(e, 0)
}

// retryRefused removes the entries that were too large and now have space; the next update
// requests them again. The caller holds mu.
func (o *Objects) retryRefused() {
	for ref, e := range o.entries {
		if e.refused > 0 && !e.known && o.hasSpace(e, e.refused) {
			o.forget(ref, e)
			o.changed.Notify()
		}
	}
}
