package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// kindService is what stands for all services among the references.
const kindService = "Service"

// services are what every pod refers to: its variables tell of them.
var services = manifest.ObjectRef{Kind: kindService}

// Objects are what the pods refer to that the cluster binds to this node. Each
// object has one watch, however many pods refer to it, from the first of them
// to the last: the Node authorizer grants a node these, one by one, and no
// other. So one that is made later is there at once, and nothing is asked for
// again and again.
//
// What was told stays while the API server is away.
type Objects struct {
	references func(*v1.Pod) []manifest.ObjectRef
	// changed is woken after the pods changed.
	changed chan struct{}

	mu          sync.Mutex
	entries     map[manifest.ObjectRef]*entry
	services    map[string][]*v1.Service
	tokens      map[tokenKey]*token
	subscribers map[chan struct{}]struct{}
}

// entry is one object that a pod refers to.
type entry struct {
	// told: the API server has said whether there is one.
	known  bool
	object object
	// revision is that of the content; empty if there is none.
	revision string
	// fault is why it could not be had, since it was told last.
	err  error
	stop context.CancelFunc
}

// NewObjects makes an empty set; an Adapter fills it. references tells to what
// objects a pod refers.
func NewObjects(references func(*v1.Pod) []manifest.ObjectRef) *Objects {
	return &Objects{
		references: references, changed: make(chan struct{}, 1),
		entries: map[manifest.ObjectRef]*entry{}, tokens: map[tokenKey]*token{}, subscribers: map[chan struct{}]struct{}{},
	}
}

// run watches what the pods refer to until the context ends.
func (o *Objects) run(ctx context.Context, a *Adapter) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		if known, synced := a.pods.Objects(); synced {
			o.update(ctx, &wg, a, known)
		}
		select {
		case <-o.changed:
		case <-ctx.Done():
			return
		}
	}
}

// keep begins to watch what pods refer to now, and ends what none does any more.
func (o *Objects) update(ctx context.Context, wg *sync.WaitGroup, a *Adapter, pods map[string]*v1.Pod) {
	refs, tokens := map[manifest.ObjectRef]bool{}, map[tokenKey]bool{}
	for _, pod := range pods {
		if isMirror(pod) || podinfo.IsTerminal(pod.Status.Phase) {
			continue
		}
		for _, ref := range o.watchedBy(pod) {
			refs[ref] = true
		}
		for _, key := range tokensOf(pod) {
			tokens[key] = true
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for ref, e := range o.entries {
		if !refs[ref] {
			e.stop()
			delete(o.entries, ref)
		}
	}
	for ref := range refs {
		if o.entries[ref] == nil {
			e := &entry{}
			o.entries[ref] = e
			o.startWatch(ctx, wg, a, ref, e)
		}
	}
	for key, t := range o.tokens {
		if !tokens[key] {
			t.stop()
			delete(o.tokens, key)
		}
	}
	for key := range tokens {
		if o.tokens[key] == nil {
			t := &token{}
			o.tokens[key] = t
			var own context.Context
			own, t.stop = context.WithCancel(ctx)
			wg.Go(func() { o.keepToken(own, a, key, t) })
		}
	}
}

// watchedBy are the references of a pod that are reflector. Its priority the API
// server has resolved; a claim is not served.
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

// begin watches what a reference leads to.
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
		run = watchOne(o, e, newReflector[*nodev1.RuntimeClass](a.client.node, "runtimeclasses", selector, a.connection, nil), ref)
	case kindService:
		w := newReflector[*v1.Service](a.client.core, "services", "", a.connection, nil)
		w.notify = func() {
			if all, synced := w.Objects(); synced {
				o.setServices(e, all)
			}
		}
		run = w.Run
	}
	wg.Go(func() { run(ctx) })
}

// follow makes a watch of one object tell of it.
func watchOne[T object](o *Objects, e *entry, w *reflector[T], ref manifest.ObjectRef) func(context.Context) {
	w.namespace = ref.Namespace
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

// tell takes what the API server has; nil is none.
func (o *Objects) setObject(e *entry, found object) {
	kept, revision := content(found)
	o.mu.Lock()
	defer o.mu.Unlock()
	if immutable(found) {
		// By its word it never changes, and needs no watch.
		e.stop()
	}
	if e.known && e.err == nil && e.revision == revision {
		return
	}
	e.known, e.object, e.revision, e.err = true, kept, revision, nil
	o.notify()
}

// patience is how many refusals in a row are not told: an API server gets to
// know a little later than we do which pods are bound to this node.
const toleratedRefusals = 3

// refuse takes a refusal. What is known stays.
func (o *Objects) setRefusal(e *entry, err error, failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if failures < toleratedRefusals || e.err != nil && e.err.Error() == err.Error() {
		return
	}
	e.err = err
	o.notify()
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

// content is an object without what does not count for pods, and its revision,
// which is that of the content alone. As a manifest's it has a key in it, that
// of the object: of two objects the revisions tell nothing.
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
	*meta = metav1.ObjectMeta{Namespace: found.GetNamespace(), Name: found.GetName(), UID: found.GetUID(), ResourceVersion: revision}
	return bare, revision
}

// wake wakes whoever subscribed; mu is held.
func (o *Objects) notify() {
	for ch := range o.subscribers {
		notify(ch)
	}
}

// Subscribe wakes after something changed, until the function is called.
func (o *Objects) Subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.subscribers[ch] = struct{}{}
	return ch, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.subscribers, ch)
	}
}

// find is the object of a reference, nil if there is none or it is not known.
func (o *Objects) find(kind, namespace, name string) object {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.entries[manifest.ObjectRef{Kind: kind, Namespace: namespace, Name: name}]; e != nil {
		return e.object
	}
	return nil
}

// ConfigMap is the one of that name, and whether there is one.
func (o *Objects) ConfigMap(namespace, name string) (*v1.ConfigMap, bool) {
	found, ok := o.find(manifest.KindConfigMap, namespace, name).(*v1.ConfigMap)
	return found, ok
}

// Secret is the one of that name, and whether there is one.
func (o *Objects) Secret(namespace, name string) (*v1.Secret, bool) {
	found, ok := o.find(manifest.KindSecret, namespace, name).(*v1.Secret)
	return found, ok
}

// RuntimeClass is the one of that name, and whether there is one.
func (o *Objects) RuntimeClass(name string) (*nodev1.RuntimeClass, bool) {
	found, ok := o.find(manifest.KindRuntimeClass, "", name).(*nodev1.RuntimeClass)
	return found, ok
}

// Claim finds none: no claim of a cluster is served here.
func (o *Objects) Claim(string, string) (*v1.PersistentVolumeClaim, bool) { return nil, false }

// PriorityClass finds none: the API server has resolved it.
func (o *Objects) PriorityClass(string) (*schedulingv1.PriorityClass, bool) { return nil, false }

// PriorityClasses are none.
func (o *Objects) PriorityClasses() []*schedulingv1.PriorityClass { return nil }

// Missing says of an object that was not found why that is, and what to do.
func (o *Objects) Missing(ref manifest.ObjectRef) (what, remedy string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.entries[ref]
	switch {
	case e != nil && e.err != nil:
		return "cannot be read from the API server: " + e.err.Error(), "the API server refuses it: " + e.err.Error()
	case e == nil || !e.known:
		return "has not been received from the API server yet", "wait for the API server"
	}
	return "does not exist in the cluster", "create it in the cluster"
}

// State is what the references of a pod lead to: it changes when the pod has to
// be looked at again. awaited is what the API server has not told of yet.
func (o *Objects) State(pod *v1.Pod) (revision string, awaited []string) {
	refs, tokens := o.watchedBy(pod), tokensOf(pod)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, ref := range refs {
		e := o.entries[ref]
		state := "?"
		switch {
		case e == nil || !e.known && e.err == nil:
			awaited = append(awaited, ref.String())
		case e.err != nil:
			state = e.revision + "!" + e.err.Error()
		default:
			state = e.revision
		}
		revision += ref.String() + "=" + state + "\n"
	}
	for _, key := range tokens {
		state, known := o.tokens[key].state()
		if !known {
			awaited = append(awaited, "token of ServiceAccount "+key.namespace+"/"+key.account)
		}
		revision += "token for " + key.audience + "=" + state + "\n"
	}
	return revision, awaited
}
