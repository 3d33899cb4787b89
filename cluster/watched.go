package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const (
	// listTimeout bounds a list.
	listTimeout = 30 * time.Second
	// watchPeriod, and up to as much again, is how long a watch lasts.
	watchPeriod = 5 * time.Minute
	// watchSilence is how long a watch may say nothing: an API server sends a
	// bookmark about every minute.
	watchSilence = 3 * time.Minute
	// shortWatch is a watch that ended too early to be begun anew at once.
	shortWatch = 10 * time.Second
)

// object is what is watched.
type object interface {
	runtime.Object
	metav1.Object
}

// watched are the objects of one resource as the API server last told, and as
// its answers to our own writes told since: a write is never followed by a
// second one because the watch is late.
//
// Each watch begins with a list of its own. An API server that came back without
// its data would take a watch from the last version on and wait, silent, until it
// has counted up to that again. What is listed is this node's only, so that it
// costs little.
type watched[T object] struct {
	client             rest.Interface
	resource, selector string
	// namespace is that of the objects; empty is all.
	namespace string
	link      *link
	wake      func()
	// refused is told of each refusal and how many there were in a row; nil logs
	// them.
	refused func(err error, failures int)

	mu     sync.Mutex
	synced bool
	// objects are what the API server told, or answered, by namespace/name.
	objects map[string]T
	// removed are the objects that are no more, since the last list: by our own
	// doing before the watch shows it, or by the watch before an answer to us.
	removed map[types.UID]bool
}

// watch makes a watch of the objects that the field selector takes. It begins
// with Run.
func watch[T object](c rest.Interface, resource, selector string, link *link, wake func()) *watched[T] {
	return &watched[T]{
		client: c, resource: resource, selector: selector, link: link, wake: wake,
		objects: map[string]T{}, removed: map[types.UID]bool{},
	}
}

// Run watches until the context ends. It logs once why the API server refuses,
// until that changes.
func (w *watched[T]) Run(ctx context.Context) {
	failures, told := 0, ""
	for {
		version, err := w.list(ctx)
		began := time.Now()
		if err == nil {
			told = ""
			err = w.follow(ctx, version)
		}
		own := err != nil && w.link.own(err)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && time.Since(began) > shortWatch:
			failures = 0
			continue
		case err == nil || own:
			failures++
		}
		switch {
		case !own || apierrors.IsResourceExpired(err):
		case w.refused != nil:
			w.refused(err, failures)
		case err.Error() != told:
			told = err.Error()
			w.link.log.Warn("API server does not tell what it has, it is asked again", "resource", w.resource, "error", err)
		}
		if !w.link.rest(ctx, failures) {
			return
		}
	}
}

func (w *watched[T]) request(o metav1.ListOptions) *rest.Request {
	o.FieldSelector = w.selector
	return w.client.Get().NamespaceIfScoped(w.namespace, w.namespace != "").Resource(w.resource).VersionedParams(&o, metav1.ParameterCodec)
}

// list asks for all, and returns the version from which to go on.
func (w *watched[T]) list(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := w.request(metav1.ListOptions{}).Do(ctx).Get()
	if err != nil {
		return "", err
	}
	of, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	var all []T
	err = meta.EachListItem(list, func(o runtime.Object) error {
		item, ok := o.(T)
		if !ok {
			return fmt.Errorf("a list of %s has a %T", w.resource, o)
		}
		all = append(all, item)
		return nil
	})
	if err == nil {
		w.replace(all)
	}
	return of.GetResourceVersion(), err
}

// follow takes what changes until the watch ends.
func (w *watched[T]) follow(ctx context.Context, version string) error {
	period := watchPeriod + rand.N(watchPeriod)
	seconds := int64(period / time.Second)
	// An API server that does not end it is not waited for.
	ctx, cancel := context.WithTimeout(ctx, period+listTimeout)
	defer cancel()
	mute := time.AfterFunc(watchSilence, cancel)
	events, err := w.request(metav1.ListOptions{
		Watch: true, ResourceVersion: version, TimeoutSeconds: &seconds, AllowWatchBookmarks: true,
	}).Watch(ctx)
	mute.Stop()
	if err != nil {
		return err
	}
	defer events.Stop()
	silence := time.NewTimer(watchSilence)
	defer silence.Stop()
	for {
		select {
		case e, ok := <-events.ResultChan():
			if !ok {
				return nil
			}
			silence.Reset(watchSilence)
			if err := w.take(e); err != nil {
				return err
			}
		case <-silence.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

var errWatch = errors.New("watch tells of something else")

func (w *watched[T]) take(e apiwatch.Event) error {
	switch e.Type {
	case apiwatch.Error:
		return apierrors.FromObject(e.Object)
	case apiwatch.Bookmark:
		return nil
	}
	o, ok := e.Object.(T)
	if !ok {
		return fmt.Errorf("%w: %s %T", errWatch, e.Type, e.Object)
	}
	if e.Type == apiwatch.Deleted {
		w.Removed(o.GetUID())
	} else {
		w.Wrote(o)
	}
	return nil
}

// replace takes a whole list. What we wrote before it is in it, or is gone: an
// API server that lost its data counts versions anew.
func (w *watched[T]) replace(all []T) {
	w.mu.Lock()
	w.synced = true
	clear(w.objects)
	clear(w.removed)
	for _, o := range all {
		w.objects[key(o)] = o
	}
	w.mu.Unlock()
	w.wake()
}

// older tells whether a is of an older version than b; what cannot be compared
// is not.
func older(a, b metav1.Object) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c < 0
}

// Wrote takes an object as the watch tells it, or as the API server answered to
// a write of ours. Either may come late, or twice.
func (w *watched[T]) Wrote(o T) {
	w.mu.Lock()
	known, ok := w.objects[key(o)]
	if !w.removed[o.GetUID()] && (!ok || !older(o, known)) {
		w.objects[key(o)] = o
	}
	w.mu.Unlock()
	w.wake()
}

// Removed is told that an object is no more.
func (w *watched[T]) Removed(uid types.UID) {
	w.mu.Lock()
	w.removed[uid] = true
	for name, o := range w.objects {
		if o.GetUID() == uid {
			delete(w.objects, name)
		}
	}
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
	return maps.Clone(w.objects), true
}

// key is namespace/name.
func key(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }
