package cluster

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// object is what is watched.
type object interface {
	runtime.Object
	metav1.Object
}

// watched are the objects of one resource as the API server last told, and as
// its answers to our own writes told since: a write is never followed by a
// second one because the watch is late.
type watched[T object] struct {
	cache.Store
	reflector *cache.Reflector
	wake      func()

	mu     sync.Mutex
	synced bool
	// written are answers to our own writes that the watch has not shown yet.
	written map[types.UID]T
	// removed are objects that we deleted, until the watch shows it.
	removed map[types.UID]bool
}

// watch makes a watch of the objects that the selector takes. It begins with
// Run.
func watch[T object](c rest.Interface, resource, selector string, example T, link *link, wake func()) (*watched[T], error) {
	fieldSelector, err := fields.ParseSelector(selector)
	if err != nil {
		return nil, err
	}
	w := &watched[T]{
		Store: cache.NewStore(cache.MetaNamespaceKeyFunc), wake: wake,
		written: map[types.UID]T{}, removed: map[types.UID]bool{},
	}
	silent := logr.Discard()
	list := cache.NewListWatchFromClient(c, resource, metav1.NamespaceAll, fieldSelector)
	w.reflector = cache.NewReflectorWithOptions(&listed{ListWatch: list, link: link}, example, w, cache.ReflectorOptions{Name: resource, Logger: &silent})
	return w, nil
}

// listed begins each watch with a list of its own, also where the reflector
// would go on from the last version. An API server that came back without its
// data would take such a watch and wait, silent, until it has counted up to that
// version again. What is listed is this node's only, so that it costs little.
type listed struct {
	*cache.ListWatch
	link *link
	// fresh is set between a list and the watch that follows. Both are called by
	// the reflector alone, one after the other.
	fresh bool
}

func (l *listed) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := l.ListWatch.ListWithContext(ctx, o)
	l.link.tell(err)
	l.fresh = err == nil
	return list, err
}

func (l *listed) WatchWithContext(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	if !l.fresh {
		return nil, apierrors.NewResourceExpired("a watch begins with a list")
	}
	l.fresh = false
	w, err := l.ListWatch.WatchWithContext(ctx, o)
	l.link.tell(err)
	return w, err
}

// IsWatchListSemanticsUnSupported makes the reflector list instead of having
// the watch send what is there, which waits in the same way.
func (*listed) IsWatchListSemanticsUnSupported() bool { return true }

// Run watches until the context ends. Without an API server it tries again,
// ever more rarely.
func (w *watched[T]) Run(ctx context.Context) {
	w.reflector.RunWithContext(klog.NewContext(ctx, logr.Discard()))
}

// Replace takes a whole list. What we wrote before it is in it, or is gone: an
// API server that lost its data counts versions anew.
func (w *watched[T]) Replace(list []any, version string) error {
	w.mu.Lock()
	w.synced = true
	clear(w.written)
	clear(w.removed)
	w.mu.Unlock()
	defer w.wake()
	return w.Store.Replace(list, version)
}

// Add, Update and Delete take what the watch tells.
func (w *watched[T]) Add(o any) error    { return w.changed(o, w.Store.Add) }
func (w *watched[T]) Update(o any) error { return w.changed(o, w.Store.Update) }
func (w *watched[T]) Delete(o any) error {
	if gone, ok := o.(T); ok {
		w.mu.Lock()
		delete(w.written, gone.GetUID())
		delete(w.removed, gone.GetUID())
		w.mu.Unlock()
	}
	defer w.wake()
	return w.Store.Delete(o)
}

func (w *watched[T]) changed(o any, store func(any) error) error {
	if seen, ok := o.(T); ok {
		w.mu.Lock()
		if ours, written := w.written[seen.GetUID()]; written && !older(seen, ours) {
			delete(w.written, seen.GetUID())
		}
		w.mu.Unlock()
	}
	defer w.wake()
	return store(o)
}

// older tells whether a is of an older version than b; what cannot be compared
// is not.
func older(a, b metav1.Object) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c < 0
}

// Wrote takes the API server's answer to a write of ours.
func (w *watched[T]) Wrote(o T) {
	w.mu.Lock()
	w.written[o.GetUID()] = o
	w.mu.Unlock()
	w.wake()
}

// Removed is told that we deleted an object.
func (w *watched[T]) Removed(uid types.UID) {
	w.mu.Lock()
	w.removed[uid] = true
	delete(w.written, uid)
	w.mu.Unlock()
	w.wake()
}

// Objects are the newest known ones by namespace/name, and whether the API
// server has told any at all. They are shared and must not be written to.
func (w *watched[T]) Objects() (map[string]T, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		return nil, false
	}
	objects := map[string]T{}
	for _, o := range w.Store.List() {
		if o := o.(T); !w.removed[o.GetUID()] {
			objects[key(o)] = o
		}
	}
	for _, o := range w.written {
		if known, ok := objects[key(o)]; !ok || known.GetUID() == o.GetUID() {
			objects[key(o)] = o
		}
	}
	return objects, true
}

// key is namespace/name.
func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
