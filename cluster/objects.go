package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/manifest"
)

// kindService refers to all services.
const kindService = "Service"

// services is a reference of every pod: service variables depend on it.
var services = manifest.ObjectRef{Kind: kindService}

// Objects has the objects that the cluster's pods on this node refer to. Each
// object has one watch, however many pods refer to it, from the first reference to
// the last: the Node authorizer grants these to a node one by one, and no others.
// So an object that is created later arrives at once, without polling.
//
// The objects stay while the API server is unreachable.
type Objects struct {
	references func(*v1.Pod) []manifest.ObjectRef
	// changed notifies about changes of the pods, and of what their CSI volumes need.
	changed wakeup.Signal

	mu sync.Mutex
	// adapter is nil before run.
	adapter     *Adapter
	entries     map[manifest.ObjectRef]*entry
	services    map[string][]*v1.Service
	tokens      map[tokenKey]*token
	subscribers wakeup.Broadcast
	storageObjects
	// space has the sizes of the contents of all entries in bytes.
	space namespaceShares
	// maxReferences limits what all pods refer to. admitted has the references that are
	// watched, nil before the first list, held has why those of other pods are not.
	maxReferences int
	admitted      map[types.UID]*podReferences
	held          map[types.UID]string
	// lists limits how many objects are requested at once.
	lists chan struct{}
}

// storageObjects are what the pods need for their volumes.
type storageObjects struct {
	claims      map[claimKey]*boundClaim
	drivers     *csiDrivers
	attachments map[attachmentKey]*attachment
	// unbound counts the claims and attachments that are requested until they are bound or attached.
	unbound atomic.Int64
}

// entry is one object that a pod refers to.
type entry struct {
	// known reports that the API server has responded whether the object exists.
	known  bool
	object object
	// revision is the revision of the content; empty if there is none.
	revision string
	// err is why the object cannot be read since it was last known.
	err  error
	stop context.CancelFunc
	// size is the size of the content in bytes, which counts for the namespace. refused is the
	// size of the newest content if it was too large to be kept. dropped reports that the entry is
	// not used any more.
	size, refused int
	namespace     string
	dropped       bool
}

// NewObjects returns an empty set; an Adapter fills it. references returns the
// objects that a pod refers to.
func NewObjects(references func(*v1.Pod) []manifest.ObjectRef) *Objects {
	return &Objects{
		references: references, changed: wakeup.NewSignal(), lists: make(chan struct{}, maxObjectLists),
		space: newNamespaceShares(maxObjects), maxReferences: maxReferences,
		entries: map[manifest.ObjectRef]*entry{}, tokens: map[tokenKey]*token{},
		storageObjects: storageObjects{claims: map[claimKey]*boundClaim{}, drivers: &csiDrivers{},
			attachments: map[attachmentKey]*attachment{}},
	}
}

// run watches what the pods refer to until the context ends.
func (o *Objects) run(ctx context.Context, a *Adapter) {
	o.mu.Lock()
	o.adapter = a
	o.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		if known, synced := a.acceptedPods(); synced {
			o.update(ctx, &wg, a, known)
		}
		select {
		case <-o.changed.C():
		case <-ctx.Done():
			return
		}
	}
}

// update starts to watch what the pods refer to now, and stops watches that are no
// longer needed.
func (o *Objects) update(ctx context.Context, wg *sync.WaitGroup, a *Adapter, pods map[string]*v1.Pod) {
	// Only this goroutine changes admitted.
	w := o.selectWatches(pods, o.admitted)
	refs := w.refs
	o.mu.Lock()
	defer o.mu.Unlock()
	if !maps.Equal(o.held, w.held) {
		o.subscribers.Notify()
	}
	o.admitted, o.held = w.admitted, w.held
	o.updateCSI(ctx, wg, a, w)
	for ref, e := range o.entries {
		if !refs[ref] {
			o.forget(ref, e)
		}
	}
	for ref := range refs {
		if o.entries[ref] == nil {
			e := &entry{namespace: ref.Namespace}
			o.entries[ref] = e
			o.startWatch(ctx, wg, a, ref, e)
		}
	}
	updateTasks(o.tokens, w.tokens, func(_ tokenKey, t *token) { t.stop() },
		func(key tokenKey) *token { return o.startToken(ctx, wg, a, key) })
	updateTasks(o.claims, w.claims, o.dropClaim,
		func(key claimKey) *boundClaim { return o.startClaim(ctx, wg, a, key) })
}

// updateTasks stops the tasks that are not desired any more, and starts those that are desired.
func updateTasks[K comparable, T any](tasks map[K]*T, desired map[K]bool, stop func(K, *T), start func(K) *T) {
	for key, task := range tasks {
		if !desired[key] {
			stop(key, task)
			delete(tasks, key)
		}
	}
	for key := range desired {
		if tasks[key] == nil {
			tasks[key] = start(key)
		}
	}
}

// watchedBy returns the references of a pod that are watched. The API server has
// resolved its priority. Claims cannot be watched.
func (o *Objects) watchedBy(pod *v1.Pod) []manifest.ObjectRef {
	refs := []manifest.ObjectRef{services}
	for _, ref := range o.references(pod) {
		switch ref.Kind {
		case manifest.KindConfigMap, manifest.KindSecret, manifest.KindRuntimeClass:
			refs = append(refs, ref)
		}
	}
	return refs
}

// startWatch watches the object of a reference.
func (o *Objects) startWatch(ctx context.Context, wg *sync.WaitGroup, a *Adapter, ref manifest.ObjectRef, e *entry) {
	ctx, e.stop = context.WithCancel(ctx)
	selector := "metadata.name=" + ref.Name
	var run func(context.Context)
	switch ref.Kind {
	case manifest.KindConfigMap:
		run = watchOne(o, e, newReflector[*v1.ConfigMap](a.client.core, "configmaps", selector, a.connection, nil), ref)
	case manifest.KindSecret:
		run = watchOne(o, e, newReflector[*v1.Secret](a.client.core, "secrets", selector, a.connection, nil), ref)
	case manifest.KindRuntimeClass:
		run = watchOne(o, e, newReflector[*nodev1.RuntimeClass](a.client.node, "runtimeclasses", selector, a.connection, nil),
			ref)
	case kindService:
		w := newReflector[*v1.Service](a.client.core, "services", "", a.connection, nil)
		w.notify = func() {
			if all, synced := w.Objects(); synced {
				o.setServices(e, all)
			}
		}
		b := newServiceBudget(a.connection.log)
		w.reduce, w.decode, w.forget, w.retain = b.reduce, b.decodeList, b.remove, b.retain
		run = w.Run
	}
	wg.Go(func() { run(ctx) })
}

// watchOne lets a reflector of one object update its entry.
func watchOne[T object](o *Objects, e *entry, w *reflector[T], ref manifest.ObjectRef) func(context.Context) {
	w.namespace, w.gate = ref.Namespace, o.lists
	w.reduce = func(found T) T { return reduced(found, o.fits(e, found)) }
	w.onRefusal = func(err error, failures int) { o.setRefusal(e, err, failures) }
	w.notify = func() {
		all, synced := w.Objects()
		if !synced {
			return
		}
		if found, ok := all[ref.Namespace+"/"+ref.Name]; ok {
			o.setObject(e, found)
		} else {
			o.setObject(e, nil)
		}
	}
	return w.Run
}

// setObject takes the object in the API; nil is none.
func (o *Objects) setObject(e *entry, found object) {
	kept, revision := content(found)
	o.mu.Lock()
	defer o.mu.Unlock()
	if found != nil && e.refused > 0 {
		if !errors.Is(e.err, errObjectsTooLarge) {
			e.err = errObjectsTooLarge
			o.subscribers.Notify()
		}
		return
	}
	if found == nil {
		e.refused = 0
		o.resize(e, 0)
	}
	if immutable(found) {
		// An immutable object needs no watch.
		e.stop()
	}
	if e.known && e.err == nil && e.revision == revision {
		return
	}
	e.known, e.object, e.revision, e.err = true, kept, revision, nil
	o.subscribers.Notify()
}

// toleratedRefusals is how many refusals in a row are not reported: the API server
// learns a little later than the node which pods are bound to it.
const toleratedRefusals = 3

// setRefusal takes a refusal. A known object stays.
func (o *Objects) setRefusal(e *entry, err error, failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if failures < toleratedRefusals || e.err != nil && e.err.Error() == err.Error() {
		return
	}
	e.err = err
	o.subscribers.Notify()
}

func immutable(found object) bool {
	switch f := found.(type) {
	case *v1.ConfigMap:
		return f.Immutable != nil && *f.Immutable
	case *v1.Secret:
		return f.Immutable != nil && *f.Immutable
	}
	return false
}

// content returns an object reduced to what matters to pods, and the revision of
// that content. As for manifests, the revision is keyed by the object: revisions
// of two objects cannot be compared.
func content(found object) (object, string) {
	if found == nil {
		return nil, ""
	}
	var bare object
	var meta *metav1.ObjectMeta
	switch f := found.(type) {
	case *v1.ConfigMap:
		c := &v1.ConfigMap{Data: f.Data, BinaryData: f.BinaryData}
		bare, meta = c, &c.ObjectMeta
	case *v1.Secret:
		c := &v1.Secret{Data: f.Data, Type: f.Type}
		bare, meta = c, &c.ObjectMeta
	case *nodev1.RuntimeClass:
		c := &nodev1.RuntimeClass{Handler: f.Handler, Overhead: f.Overhead, Scheduling: f.Scheduling}
		bare, meta = c, &c.ObjectMeta
	default:
		return found, found.GetResourceVersion()
	}
	text, err := json.Marshal(bare)
	if err != nil {
		panic("cluster: an object that was decoded does not encode: " + err.Error())
	}
	hash := hmac.New(sha256.New, []byte(found.GetUID()))
	_, _ = hash.Write(text)
	id := sha256.Sum256([]byte("id of " + found.GetUID()))
	revision := hex.EncodeToString(id[:4]) + "-" + hex.EncodeToString(hash.Sum(nil)[:8])
	*meta = metav1.ObjectMeta{Namespace: found.GetNamespace(), Name: found.GetName(), UID: found.GetUID(),
		ResourceVersion: revision}
	return bare, revision
}

// Subscribe notifies after a change, until the function is called.
func (o *Objects) Subscribe() (<-chan struct{}, func()) { return o.subscribers.Subscribe() }

// find returns the object of a reference, nil if there is none or it is not known.
func (o *Objects) find(kind, namespace, name string) object {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.entries[manifest.ObjectRef{Kind: kind, Namespace: namespace, Name: name}]; e != nil {
		return e.object
	}
	return nil
}

// ConfigMap returns a ConfigMap and whether it exists.
func (o *Objects) ConfigMap(namespace, name string) (*v1.ConfigMap, bool) {
	found, ok := o.find(manifest.KindConfigMap, namespace, name).(*v1.ConfigMap)
	return found, ok
}

// Secret returns a Secret and whether it exists.
func (o *Objects) Secret(namespace, name string) (*v1.Secret, bool) {
	found, ok := o.find(manifest.KindSecret, namespace, name).(*v1.Secret)
	return found, ok
}

// RuntimeClass returns a RuntimeClass and whether it exists.
func (o *Objects) RuntimeClass(name string) (*nodev1.RuntimeClass, bool) {
	found, ok := o.find(manifest.KindRuntimeClass, "", name).(*nodev1.RuntimeClass)
	return found, ok
}

// Claim returns none: BoundClaim has those of a pod.
func (o *Objects) Claim(string, string) (*v1.PersistentVolumeClaim, bool) { return nil, false }

// Claims returns none, as Claim does.
func (o *Objects) Claims() []*v1.PersistentVolumeClaim { return nil }

// Volumes returns none: the cluster binds claims.
func (o *Objects) Volumes() []*v1.PersistentVolume { return nil }

// StorageClasses returns none.
func (o *Objects) StorageClasses() []*storagev1.StorageClass { return nil }

// PriorityClass returns none: the API server has resolved it.
func (o *Objects) PriorityClass(string) (*schedulingv1.PriorityClass, bool) { return nil, false }

// PriorityClasses returns none.
func (o *Objects) PriorityClasses() []*schedulingv1.PriorityClass { return nil }

// Missing returns why an object was not found, and what to do.
func (o *Objects) Missing(ref manifest.ObjectRef) (what, remedy string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.entries[ref]
	switch {
	case e != nil && errors.Is(e.err, errObjectsTooLarge):
		return "is not kept: " + e.err.Error(), "use smaller ones"
	case e != nil && e.err != nil:
		return "cannot be read from the API server: " + e.err.Error(), "allow the node to read it"
	case e == nil || !e.known:
		return "has not been received from the API server yet", "wait for the API server"
	}
	return "does not exist in the cluster", "create it in the cluster"
}
