package cluster

import (
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// object is an API object that a reflector keeps.
type object interface {
	runtime.Object
	metav1.Object
}

// store has the objects of one resource as the watch last showed them, and as the
// API server responded to this adapter's own writes since: a write is never
// repeated because the watch is late.
type store[T object] struct {
	// notify is called after each change.
	notify func()
	// reduce returns an object as it is kept; nil keeps all of it.
	reduce func(T) T
	// forget is called for each object that is removed, retain with each list; nil calls
	// nothing.
	forget func(types.UID)
	retain func([]T)

	mu     sync.Mutex
	synced bool
	// objects are by namespace/name.
	objects map[string]T
	// removed are the objects that were removed since the last list: by this
	// adapter before the watch shows it, or by others before a response to a write
	// of this adapter arrives.
	removed map[types.UID]bool
}

func newStore[T object](notify func()) store[T] {
	return store[T]{notify: notify, objects: map[string]T{}, removed: map[types.UID]bool{}}
}

// replace sets the content to a whole list. Own writes before it are in the list,
// or are gone: an API server that lost its data starts its versions again.
func (s *store[T]) replace(all []T) {
	if s.reduce != nil {
		for i := range all {
			all[i] = s.reduce(all[i])
		}
	}
	if s.retain != nil {
		s.retain(all)
	}
	s.mu.Lock()
	s.synced = true
	clear(s.objects)
	clear(s.removed)
	for _, o := range all {
		s.objects[key(o)] = o
	}
	s.mu.Unlock()
	s.notify()
}

// older reports whether a has an older version than b; versions that cannot be
// compared are not older.
func older(a, b metav1.Object) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c < 0
}

// Stored takes an object from the watch, or from the response to an own write.
// Either may come late, or twice.
func (s *store[T]) Stored(o T) {
	if s.reduce != nil {
		o = s.reduce(o)
	}
	s.mu.Lock()
	known, ok := s.objects[key(o)]
	removed := s.removed[o.GetUID()]
	if !removed && (!ok || !older(o, known)) {
		s.objects[key(o)] = o
	}
	s.mu.Unlock()
	if removed && s.forget != nil {
		s.forget(o.GetUID())
	}
	s.notify()
}

// Removed takes the removal of an object.
func (s *store[T]) Removed(uid types.UID) {
	if s.forget != nil {
		s.forget(uid)
	}
	s.mu.Lock()
	s.removed[uid] = true
	for name, o := range s.objects {
		if o.GetUID() == uid {
			delete(s.objects, name)
		}
	}
	s.mu.Unlock()
	s.notify()
}

// Objects returns the newest known objects by namespace/name, and whether the
// first list has succeeded. The objects are shared: callers must not modify them.
func (s *store[T]) Objects() (map[string]T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.synced {
		return nil, false
	}
	return maps.Clone(s.objects), true
}

// key is namespace/name.
func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
