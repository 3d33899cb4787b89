package kubeapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podstead/podstead/internal/wakeup"
)

// maxChanges is the number of changes of a resource that are kept for watches.
const maxChanges = 1024

// Object is an object of a resource.
type Object interface {
	metav1.Object
	runtime.Object
}

// Source is the source of the objects of one resource.
type Source struct {
	// List returns a snapshot; nil if there never are any objects. The cache keeps the objects and sets their resource
	// versions. So each call returns objects that are not used elsewhere; it may return the
	// same pointer again for an object that is known to be unchanged.
	List func() []Object
	// Subscribe returns a channel that is notified after a change, and a function that ends
	// the subscription. It is nil for objects that change only when they are read.
	Subscribe func() (<-chan struct{}, func())
	// Revisions returns the revisions of the manifests of objects, by namespace/name. An object
	// gets another resource version with another revision, even if it does not show the change
	// yet: a client that has seen the previous one must not overwrite the change. It may be nil.
	Revisions func() map[string]string
}

// entry is one version of an object. It is immutable.
type entry struct {
	key     string // namespace/name
	object  Object
	version uint64
	// listed is the object as the source listed it: object, or what that is a copy of.
	listed Object
	// revision is that of its manifest, empty if that is not known.
	revision string
	// declared is the version since which nothing but the status has changed. A client that has
	// seen it, or a later one, knows all that it can write.
	declared uint64

	encode sync.Once
	json   []byte

	encodeMeta sync.Once
	meta       []byte
}

// bytes returns the object as JSON. Each version is encoded once, for all clients.
func (e *entry) bytes() []byte {
	e.encode.Do(func() {
		data, err := json.Marshal(e.object)
		if err != nil {
			// Encoding a type of the API cannot fail.
			data = []byte("{}")
		}
		e.json = data
	})
	return e.json
}

// metadata returns the part of the object for a table, also encoded once.
func (e *entry) metadata() []byte {
	e.encodeMeta.Do(func() {
		o := e.object
		meta := metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}}
		meta.Name, meta.Namespace, meta.UID = o.GetName(), o.GetNamespace(), o.GetUID()
		meta.ResourceVersion, meta.CreationTimestamp = o.GetResourceVersion(), o.GetCreationTimestamp()
		meta.DeletionTimestamp = o.GetDeletionTimestamp()
		meta.Labels, meta.Annotations = o.GetLabels(), o.GetAnnotations()
		e.meta = mustJSON(meta)
	})
	return e.meta
}

// change is one change of a resource.
type change struct {
	kind watch.EventType
	// object is the object after the change, or its last state if it was deleted; previous
	// is nil for a new object.
	object, previous *entry
}

// cache keeps the current objects of one resource and its latest changes. It is refreshed
// by each request, and after each change while there are watches. Without clients it does
// nothing.
type cache struct {
	kind     schema.GroupVersionKind
	source   Source
	versions *Versions

	mu      sync.Mutex
	entries map[string]*entry
	changes []change
	// oldest is the version since which changes are complete.
	oldest uint64
	// version is that of the latest change, or of the first refresh.
	version uint64
	// changed notifies the watchers after each change.
	changed wakeup.Broadcast
	// watchers counts the open watches.
	watchers int
}

func newCache(source Source, versions *Versions) *cache {
	return &cache{source: source, versions: versions, entries: map[string]*entry{}}
}

// run refreshes the cache after each change while there are watches, until ctx ends.
func (c *cache) run(ctx context.Context) {
	if c.source.Subscribe == nil {
		return
	}
	notified, unsubscribe := c.source.Subscribe()
	defer unsubscribe()
	for {
		// Also at once: a change before the subscription notifies nobody.
		c.mu.Lock()
		if c.watchers > 0 {
			c.refresh()
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-notified:
		}
	}
}

// refresh compares a snapshot with the cached objects. The caller holds mu.
func (c *cache) refresh() {
	if c.version == 0 {
		c.version = c.versions.Next()
		c.oldest = c.version
	}
	seen := map[string]bool{}
	var revisions map[string]string
	if c.source.Revisions != nil {
		revisions = c.source.Revisions()
	}
	var changes []change
	var objects []Object
	if c.source.List != nil {
		objects = c.source.List()
	}
	for _, o := range objects {
		key := o.GetNamespace() + "/" + o.GetName()
		if seen[key] {
			continue // an older revision of the same name, which is terminating
		}
		seen[key] = true
		previous := c.entries[key]
		revision := revisions[key]
		declares := previous != nil && previous.revision != revision
		listed := o
		if previous != nil && previous.listed == o {
			// Clients read it, in this version or in an earlier one: it must not be modified.
			if !declares {
				continue
			}
			o = o.DeepCopyObject().(Object)
		}
		o.GetObjectKind().SetGroupVersionKind(c.kind)
		if previous != nil && previous.object.GetUID() != o.GetUID() {
			changes = append(changes, c.deletion(previous))
			previous = nil
		}
		if previous != nil {
			o.SetResourceVersion(previous.object.GetResourceVersion())
			if !declares && equality.Semantic.DeepEqual(previous.object, o) {
				continue
			}
		}
		e := &entry{key: key, object: o, listed: listed, version: c.versions.Next(), revision: revision}
		if e.declared = e.version; previous != nil && !declares && equalButStatus(previous.object, o) {
			e.declared = previous.declared
		}
		o.SetResourceVersion(strconv.FormatUint(e.version, 10))
		c.entries[key] = e
		kind := watch.Modified
		if previous == nil {
			kind = watch.Added
		}
		changes = append(changes, change{kind: kind, object: e, previous: previous})
	}
	for key, e := range c.entries {
		if !seen[key] {
			changes = append(changes, c.deletion(e))
			delete(c.entries, key)
		}
	}
	c.record(changes)
}

// equalButStatus reports whether two versions of a pod differ at most in their status. Clients write
// no status, and other objects have none that changes.
func equalButStatus(previous, o Object) bool {
	before, ok := previous.(*v1.Pod)
	after, same := o.(*v1.Pod)
	if !ok || !same {
		return false
	}
	one, two := v1.Pod{ObjectMeta: before.ObjectMeta, Spec: before.Spec},
		v1.Pod{ObjectMeta: after.ObjectMeta, Spec: after.Spec}
	one.ResourceVersion = two.ResourceVersion
	return equality.Semantic.DeepEqual(&one, &two)
}

// deletion returns the change that deletes an object, with a version of its own.
func (c *cache) deletion(last *entry) change {
	o := last.object.DeepCopyObject().(Object)
	e := &entry{key: last.key, object: o, version: c.versions.Next()}
	o.SetResourceVersion(strconv.FormatUint(e.version, 10))
	return change{kind: watch.Deleted, object: e, previous: last}
}

func (c *cache) record(changes []change) {
	if len(changes) == 0 {
		return
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.object.version, b.object.version) })
	c.version = changes[len(changes)-1].object.version
	c.changes = append(c.changes, changes...)
	if extra := len(c.changes) - maxChanges; extra > 0 {
		c.oldest = c.changes[extra-1].object.version
		c.changes = slices.Clone(c.changes[extra:])
	}
	c.changed.Notify()
}

// list returns all objects, sorted by namespace and name, and the version of the list.
func (c *cache) list() ([]*entry, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	return c.sorted(), c.version
}

func (c *cache) sorted() []*entry {
	all := make([]*entry, 0, len(c.entries))
	for _, e := range c.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return strings.Compare(a.key, b.key) })
	return all
}

// get returns one object, nil if it does not exist.
func (c *cache) get(namespace, name string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	return c.entries[namespace+"/"+name]
}

// errTooOld means that a watch requests changes that are no longer available.
var errTooOld = fmt.Errorf("the requested version is too old")

// addWatcher registers a watch until remove is called. The channel receives after changes.
func (c *cache) addWatcher() (changed <-chan struct{}, remove func()) {
	changed, unsubscribe := c.changed.Subscribe()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers++
	c.refresh()
	return changed, func() {
		unsubscribe()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers--
	}
}

// snapshot returns all objects and the version from which to watch.
func (c *cache) snapshot() ([]*entry, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sorted(), c.version
}

// changesSince returns the changes after a version, and the version from which to go on.
func (c *cache) changesSince(version uint64) (changes []change, next uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A version that was never returned comes from another installation of this node.
	if version < c.oldest || version > c.versions.Last() {
		return nil, 0, errTooOld
	}
	at, _ := slices.BinarySearchFunc(c.changes, version+1,
		func(ch change, v uint64) int { return cmp.Compare(ch.object.version, v) })
	return slices.Clone(c.changes[at:]), max(version, c.version), nil
}
