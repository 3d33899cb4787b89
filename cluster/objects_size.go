package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
)

const (
	// maxObjects is the maximum size in bytes of the contents of all ConfigMaps and Secrets
	// that the pods of this node refer to. Each may have a megabyte, and a pod may refer to
	// any number of them. Pods that refer to more are held.
	maxObjects = 64 << 20
	// maxObjectLists is how many of them are requested at once.
	maxObjectLists = 8
)

var errObjectsTooLarge = fmt.Errorf("the ConfigMaps and Secrets of the pods on this node are larger than %d MiB together", maxObjects>>20)

// dataSize returns the size of an object's content in bytes.
func dataSize(found object) (size int) {
	switch f := found.(type) {
	case *v1.ConfigMap:
		for name, value := range f.Data {
			size += len(name) + len(value)
		}
		for name, value := range f.BinaryData {
			size += len(name) + len(value)
		}
	case *v1.Secret:
		for name, value := range f.Data {
			size += len(name) + len(value)
		}
	}
	return size
}

// withoutData returns a copy of an object without its content.
func withoutData[T object](found T) T {
	bare, ok := found.DeepCopyObject().(T)
	if !ok {
		return found
	}
	switch f := any(bare).(type) {
	case *v1.ConfigMap:
		f.Data, f.BinaryData = nil, nil
	case *v1.Secret:
		f.Data = nil
	}
	return bare
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
	if e.tooLarge = o.size-e.size+size > o.maxSize && size > e.size; e.tooLarge {
		return false
	}
	o.size += size - e.size
	e.size = size
	return true
}

// drop ends an entry. The caller holds mu.
func (o *Objects) drop(ref manifest.ObjectRef, e *entry) {
	e.stop()
	e.dropped = true
	o.size -= e.size
	delete(o.entries, ref)
}

// retryTooLarge drops the entries that were too large, after others have been dropped: they
// are requested again. The caller holds mu.
func (o *Objects) retryTooLarge() {
	for ref, e := range o.entries {
		if e.tooLarge && !e.known {
			o.drop(ref, e)
		}
	}
}
