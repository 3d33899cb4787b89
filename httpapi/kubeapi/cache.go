package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// history is how many changes of a resource a watch can catch up with.
const maxChanges = 1024

// Object is one of a resource.
type Object interface {
	metav1.Object
	runtime.Object
}

// Source gives the objects of one resource.
type Source struct {
	// List is a snapshot. The cache keeps the objects and sets their resource
	// versions: each call returns objects of its own, and for those in which
	// nothing changed the same as before, if it is known.
	List func() []Object
	// Subscribe returns a channel that is woken after a change, and what ends
	// that; nil for objects that change only when they are asked for.
	Subscribe func() (<-chan struct{}, func())
}

// entry is one version of an object. Nothing in it is ever written to again.
type entry struct {
	key     string // namespace/name
	object  Object
	version uint64

	encode sync.Once
	json   []byte

	encodeMeta sync.Once
	meta       []byte
}

// bytes is the object as JSON. Each version is encoded once, for all readers.
func (e *entry) bytes() []byte {
	e.encode.Do(func() {
		data, err := json.Marshal(e.object)
		if err != nil {
			// No type of the API can fail to encode.
			data = []byte("{}")
		}
		e.json = data
	})
	return e.json
}

// metadata is what a table carries of the object, encoded once as well.
func (e *entry) metadata() []byte {
	e.encodeMeta.Do(func() {
		o := e.object
		meta := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}}
		meta.Name, meta.Namespace, meta.UID = o.GetName(), o.GetNamespace(), o.GetUID()
		meta.ResourceVersion, meta.CreationTimestamp = o.GetResourceVersion(), o.GetCreationTimestamp()
		meta.DeletionTimestamp = o.GetDeletionTimestamp()
		meta.Labels, meta.Annotations = o.GetLabels(), o.GetAnnotations()
		e.meta = mustJSON(meta)
	})
	return e.meta
}

// change is one step of a resource.
type change struct {
	kind watch.EventType
	// now is the object after the change, or as it was last if it is gone;
	// before is nil for a new one.
	object, previous *entry
}

// cache holds the objects of one resource as they were last seen, and the last
// changes. It looks when somebody asks, and at each change while somebody
// watches; with nobody there it does nothing.
type cache struct {
	kind     schema.GroupVersionKind
	source   Source
	versions *Versions

	mu      sync.Mutex
	entries map[string]*entry
	changes []change
	// oldest is the version from which on changes are complete.
	oldest uint64
	// version is that of the newest change, or of the first look.
	version uint64
	// changed is closed and replaced with each change.
	changed chan struct{}
	// watchers counts the open watches.
	watchers int
}

func newCache(source Source, versions *Versions) *cache {
	return &cache{source: source, versions: versions, entries: map[string]*entry{}, changed: make(chan struct{})}
}

// run looks at each change while there are watches, until ctx ends.
func (c *cache) run(ctx context.Context) {
	if c.source.Subscribe == nil {
		return
	}
	wake, end := c.source.Subscribe()
	defer end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		c.mu.Lock()
		if c.watchers > 0 {
			c.refresh()
		}
		c.mu.Unlock()
	}
}

// look compares a snapshot with what is known. The caller holds mu.
func (c *cache) refresh() {
	if c.version == 0 {
		c.version = c.versions.Next()
		c.oldest = c.version
	}
	seen := map[string]bool{}
	var changes []change
	for _, o := range c.source.List() {
		key := o.GetNamespace() + "/" + o.GetName()
		if seen[key] {
			continue // an older revision of the same name, which is ending
		}
		seen[key] = true
		before := c.entries[key]
		if before != nil && before.object == o {
			continue // readers have it: it must not be written to
		}
		o.GetObjectKind().SetGroupVersionKind(c.kind)
		if before != nil && before.object.GetUID() != o.GetUID() {
			changes = append(changes, c.deletion(before))
			before = nil
		}
		if before != nil {
			o.SetResourceVersion(before.object.GetResourceVersion())
			if equality.Semantic.DeepEqual(before.object, o) {
				continue
			}
		}
		e := &entry{key: key, object: o, version: c.versions.Next()}
		o.SetResourceVersion(strconv.FormatUint(e.version, 10))
		c.entries[key] = e
		kind := watch.Modified
		if before == nil {
			kind = watch.Added
		}
		changes = append(changes, change{kind: kind, object: e, previous: before})
	}
	for key, e := range c.entries {
		if !seen[key] {
			changes = append(changes, c.deletion(e))
			delete(c.entries, key)
		}
	}
	c.record(changes)
}

// gone is the change that ends an object, with a version of its own.
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
	slices.SortFunc(changes, func(a, b change) int { return int(int64(a.object.version) - int64(b.object.version)) })
	c.version = changes[len(changes)-1].object.version
	c.changes = append(c.changes, changes...)
	if extra := len(c.changes) - maxChanges; extra > 0 {
		c.oldest = c.changes[extra-1].object.version
		c.changes = slices.Clone(c.changes[extra:])
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// list is every object by namespace and name, and the version of the list.
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

// get is one object, nil if there is none.
func (c *cache) get(namespace, name string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	return c.entries[namespace+"/"+name]
}

// errTooOld says that a watch asked for changes that are not kept.
var errTooOld = fmt.Errorf("the requested version is too old")

// follow begins a watch; end ends it.
func (c *cache) addWatcher() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers++
	c.refresh()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.watchers--
	}
}

// now is every object, and the version from which on to follow.
func (c *cache) snapshot() ([]*entry, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sorted(), c.version
}

// since is what changed after a version, the version to go on from, and a
// channel that is closed with the next change.
func (c *cache) changesSince(version uint64) (changes []change, next uint64, changed <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// One that was never given is of another life of this box.
	if version < c.oldest || version > c.versions.Last() {
		return nil, 0, nil, errTooOld
	}
	at, _ := slices.BinarySearchFunc(c.changes, version+1, func(ch change, v uint64) int { return int(int64(ch.object.version) - int64(v)) })
	return slices.Clone(c.changes[at:]), max(version, c.version), c.changed, nil
}
