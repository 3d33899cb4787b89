package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// listTimeout limits a list request.
	listTimeout = 30 * time.Second
	// maxWatchPeriod is the longest time that client-go lets a watch run; it picks
	// between half of it and all of it.
	maxWatchPeriod = 10 * time.Minute
	// watchSilence is how long a watch may stay without an event: an API server
	// sends a bookmark about every minute.
	watchSilence = 3 * time.Minute
	// shortWatch is the duration of a watch that ended too early to be restarted
	// at once.
	shortWatch = 10 * time.Second
)

// reflector keeps the objects of one resource in its store, by client-go's
// Reflector over this package's connection.
//
// Each watch begins with a consistent list. An API server that lost its data
// would accept a watch from the last version and send nothing until its versions
// have reached that one again. The lists are cheap, since they are restricted to
// the objects of this node.
type reflector[T object] struct {
	store[T]
	client             rest.Interface
	resource, selector string
	// namespace restricts the objects; empty is all namespaces.
	namespace  string
	connection *connection
	// gate limits the lists of several reflectors at once; nil does not.
	gate chan struct{}
	// decode reads a list from the response of the API server; nil reads the response as a whole.
	decode func(io.Reader) (runtime.Object, error)
	// onRefusal receives each refusal of the API server with the number of
	// refusals in a row; nil logs them.
	onRefusal func(err error, failures int)

	// silence ends the present watch unless an event resets it. watchErr is why
	// the last watch request failed, eventErr has why the API server ended the last
	// watch.
	silence  *time.Timer
	watchErr error
	eventErr *watchFailure
	// listed reports whether no watch has begun since the last list, at listedAt.
	listed   bool
	listedAt time.Time
}

// newReflector creates a reflector of the objects that match a field selector. It
// starts with Run. notify is called after each change of the store.
func newReflector[T object](c rest.Interface, resource, selector string, connection *connection,
	notify func()) *reflector[T] {
	return &reflector[T]{
		store: newStore[T](notify), client: c, resource: resource, selector: selector, connection: connection,
	}
}

// errWatchEnded is what WatchWithContext returns once a watch has ended, so that
// the next one begins with a list.
var errWatchEnded = errors.New("watch ended")

// Run lists and watches until the context ends. It logs a refusal of the API
// server once until the reason changes.
func (r *reflector[T]) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, clientGoLogger(r.connection))
	var expected T
	clientGo := cache.NewReflectorWithOptions(listWatch[T]{r}, expected, events[T]{r}, cache.ReflectorOptions{
		Name: r.resource, Backoff: &wait.Backoff{Duration: minRetryDelay, Factor: 2, Jitter: 0.25, Steps: 10,
			Cap: maxRetryDelay},
	})
	failures, logged := 0, ""
	for {
		began, err := r.listAndWatch(ctx, clientGo)
		if !began.IsZero() && time.Since(began) > shortWatch {
			failures = 0
		}
		own := err != nil && r.connection.isOwnError(err)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			logged = ""
			if failures == 0 && !began.IsZero() && time.Since(began) > shortWatch {
				continue
			}
			failures++
		case own:
			failures++
		}
		switch {
		case !own || isExpired(err) || isBroken(err) && failures == 1:
		case r.onRefusal != nil:
			r.onRefusal(err, failures)
		case err.Error() != logged:
			logged = err.Error()
			r.connection.log.Warn("List/watch failed, retrying", "resource", r.resource, "err", err)
		}
		if !r.connection.backoff(ctx, failures) {
			return
		}
	}
}

// isExpired reports whether the API server no longer has the version from which a watch
// was to go on. That is normal: the list that follows has everything.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// isBroken reports whether a watch ended with an event that could not be decoded. Once
// that is the end of a connection; if it follows a new list it is not.
func isBroken(err error) bool { return apierrors.HasStatusCause(err, "ClientWatchDecoding") }

// watchFailure is the error that the API server sent in a watch, if any; client-go only
// logs it.
type watchFailure struct{ err atomic.Pointer[error] }

// observe passes the events of a watch on, and keeps an error among them.
func (f *watchFailure) observe(w apiwatch.Interface) apiwatch.Interface {
	out := make(chan apiwatch.Event)
	proxy := apiwatch.NewProxyWatcher(out)
	go func() {
		defer close(out)
		defer w.Stop()
		for {
			select {
			case e, ok := <-w.ResultChan():
				if !ok {
					return
				}
				if e.Type == apiwatch.Error {
					err := apierrors.FromObject(e.Object)
					f.err.Store(&err)
				}
				select {
				case out <- e:
				case <-proxy.StopChan():
					return
				}
			case <-proxy.StopChan():
				return
			}
		}
	}()
	return proxy
}

func (f *watchFailure) get() error {
	if f == nil || f.err.Load() == nil {
		return nil
	}
	return *f.err.Load()
}

// listAndWatch lists the objects and watches them once. It returns when the list
// succeeded, zero if it did not.
func (r *reflector[T]) listAndWatch(ctx context.Context, clientGo *cache.Reflector) (began time.Time, err error) {
	// An API server that does not end the watch is not waited for.
	ctx, cancel := context.WithTimeout(ctx, maxWatchPeriod+2*listTimeout)
	defer cancel()
	r.silence, r.watchErr, r.eventErr, r.listed, r.listedAt = time.AfterFunc(watchSilence, cancel), nil, nil, false,
		time.Time{}
	defer r.silence.Stop()
	err = clientGo.ListAndWatchWithContext(ctx)
	if errors.Is(err, errWatchEnded) || err == nil {
		err = cmp.Or(r.watchErr, r.eventErr.get())
	}
	return r.listedAt, err
}

// listWatch sends the requests of a reflector.
type listWatch[T object] struct{ *reflector[T] }

// IsWatchListSemanticsUnSupported selects lists instead of streams of initial
// events: what a node sees is small.
func (listWatch[T]) IsWatchListSemanticsUnSupported() bool { return true }

// List and Watch implement cache.ListerWatcher. client-go calls the methods with
// a context.
func (l listWatch[T]) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

func (l listWatch[T]) Watch(o metav1.ListOptions) (apiwatch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

// ListWithContext lists the objects. It leaves out the version and the limit of
// the options: without them the response is consistent and complete.
func (l listWatch[T]) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if l.gate != nil {
		select {
		case l.gate <- struct{}{}:
			defer func() { <-l.gate }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if l.decode == nil {
		return l.request(metav1.ListOptions{}).Do(ctx).Get()
	}
	body, err := l.request(metav1.ListOptions{}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return l.decode(body)
}

// WatchWithContext begins a watch, one after each list.
func (l listWatch[T]) WatchWithContext(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	if !l.listed {
		return nil, errWatchEnded
	}
	l.listed = false
	o.Watch = true
	l.silence.Reset(watchSilence)
	w, err := l.request(o).Watch(ctx)
	if err != nil {
		// client-go would retry some errors by itself, and not notice that the API
		// server responds again.
		if ctx.Err() == nil {
			l.watchErr = err
		}
		return nil, errWatchEnded
	}
	l.eventErr = &watchFailure{}
	return l.eventErr.observe(w), nil
}

func (r *reflector[T]) request(o metav1.ListOptions) *rest.Request {
	o.FieldSelector = r.selector
	return r.client.Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.resource).VersionedParams(&o,
		metav1.ParameterCodec)
}

// events takes what client-go's Reflector receives.
type events[T object] struct{ *reflector[T] }

// Add implements cache.ReflectorStore.
func (e events[T]) Add(o any) error { return e.set(o) }

// Update implements cache.ReflectorStore.
func (e events[T]) Update(o any) error { return e.set(o) }

func (e events[T]) set(o any) error {
	e.silence.Reset(watchSilence)
	item, ok := o.(T)
	if !ok {
		return fmt.Errorf("unexpected %T among %s", o, e.resource)
	}
	e.Stored(item)
	return nil
}

// Delete implements cache.ReflectorStore.
func (e events[T]) Delete(o any) error {
	e.silence.Reset(watchSilence)
	item, ok := o.(T)
	if !ok {
		return fmt.Errorf("unexpected %T among %s", o, e.resource)
	}
	e.Removed(item.GetUID())
	return nil
}

// Replace implements cache.ReflectorStore.
func (e events[T]) Replace(list []any, _ string) error {
	all := make([]T, 0, len(list))
	for _, o := range list {
		item, ok := o.(T)
		if !ok {
			return fmt.Errorf("unexpected %T in a list of %s", o, e.resource)
		}
		all = append(all, item)
	}
	e.listed, e.listedAt = true, time.Now()
	e.replace(all)
	return nil
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (e events[T]) Bookmark(string) error {
	e.silence.Reset(watchSilence)
	return nil
}

// Resync implements cache.ReflectorStore; there is no resync period.
func (e events[T]) Resync() error { return nil }

// clientGoLogger lets client-go log at debug level only: what it logs at its own
// levels is logged by this package, or is no news.
func clientGoLogger(c *connection) logr.Logger {
	if c == nil || c.log == nil {
		return logr.Discard()
	}
	return logr.FromSlogHandler(c.log.Handler()).V(4)
}
