package cri

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// inventory holds the contents of the last list, by ID, and the pods built from
// it.
type inventory struct {
	instance string
	scratch  sync.Pool // of *scratch

	mu         sync.Mutex
	generation uint64
	sandboxes  map[string]*inventorySandbox
	containers map[string]*inventoryContainer
	pods       map[podKey]*inventoryPod
	own        []*Pod
	foreign    []*Pod
}

// podKey identifies a pod. If another client uses a UID of ours, its pod is still
// not ours.
type podKey struct {
	uid types.UID
	own bool
}

// inventoryPod collects the sandboxes and containers of one pod. published was
// returned by a list and is never written to again.
type inventoryPod struct {
	key        podKey
	id         identity
	sandboxes  []*inventorySandbox
	containers []*inventoryContainer
	published  *Pod
	changed    bool
}

type inventorySandbox struct {
	Sandbox
	key        podKey
	id         identity
	created    int64
	generation uint64 // of the last list that contained it
}

type inventoryContainer struct {
	Container
	key        podKey
	id         identity
	created    int64
	generation uint64
}

func newInventory(instance string) *inventory {
	k := &inventory{
		instance:   instance,
		sandboxes:  map[string]*inventorySandbox{},
		containers: map[string]*inventoryContainer{},
		pods:       map[podKey]*inventoryPod{},
	}
	k.scratch.New = func() any { return &scratch{inventory: k} }
	return k
}

func (k *inventory) isOwn(labels map[string]string) bool {
	return k.instance != "" && labels[LabelInstance] == k.instance
}

// newSandbox reads all fields of a sandbox that is not in the inventory. It
// returns nil if the sandbox does not name its pod.
func (k *inventory) newSandbox(s *runtimeapi.PodSandbox) *inventorySandbox {
	id := identify(s)
	if id.uid == "" {
		return nil
	}
	own := k.isOwn(s.Labels)
	return &inventorySandbox{Sandbox: observedSandbox(s, own), key: podKey{id.uid, own}, id: id, created: s.CreatedAt}
}

// newContainer is newSandbox for a container. A container without labels cannot
// be assigned to a pod; its sandbox represents it.
func (k *inventory) newContainer(c *runtimeapi.Container) *inventoryContainer {
	id := identity{types.UID(c.Labels[LabelPodUID]), c.Labels[LabelPodName], c.Labels[LabelPodNamespace]}
	if id.uid == "" {
		return nil
	}
	own := k.isOwn(c.Labels)
	return &inventoryContainer{Container: observedContainer(c, own), key: podKey{id.uid, own}, id: id,
		created: c.CreatedAt}
}

// apply replaces the contents of the inventory with a list and returns the
// resulting pods.
func (k *inventory) apply(s *scratch, at time.Time) *Observed {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generation++
	changed := k.applySandboxes(s.sandboxes)
	changed = k.applyContainers(s.containers) || changed
	if changed {
		k.publish()
	}
	return &Observed{Own: k.own, Foreign: k.foreign, At: at}
}

func (k *inventory) applySandboxes(items []sandboxItem) (changed bool) {
	live := 0
	for _, item := range items {
		b := item.entry
		old := k.sandboxes[b.ID]
		if old != nil && old.generation == k.generation {
			continue // listed twice
		}
		if old != b {
			if old != nil {
				k.dropSandbox(old)
			}
			k.sandboxes[b.ID] = b
			p := k.pod(b.key, b.id)
			p.sandboxes, p.changed, changed = append(p.sandboxes, b), true, true
		}
		if ready := item.state == int32(runtimeapi.PodSandboxState_SANDBOX_READY); b.Ready != ready {
			b.Ready = ready
			k.pods[b.key].changed, changed = true, true
		}
		b.generation = k.generation
		live++
	}
	if live < len(k.sandboxes) {
		changed = true
		for _, b := range k.sandboxes {
			if b.generation != k.generation {
				k.dropSandbox(b)
			}
		}
	}
	return changed
}

func (k *inventory) applyContainers(items []containerItem) (changed bool) {
	live := 0
	for _, item := range items {
		c := item.entry
		old := k.containers[c.ID]
		if old != nil && old.generation == k.generation {
			continue // shown twice
		}
		if old != c {
			if old != nil {
				k.dropContainer(old)
			}
			k.containers[c.ID] = c
			p := k.pod(c.key, c.id)
			p.containers, p.changed, changed = append(p.containers, c), true, true
		}
		if now := containerState(runtimeapi.ContainerState(item.state)); c.State != now {
			c.State = now
			k.pods[c.key].changed, changed = true, true
		}
		c.generation = k.generation
		live++
	}
	if live < len(k.containers) {
		changed = true
		for _, c := range k.containers {
			if c.generation != k.generation {
				k.dropContainer(c)
			}
		}
	}
	return changed
}

func (k *inventory) pod(key podKey, id identity) *inventoryPod {
	p := k.pods[key]
	if p == nil {
		p = &inventoryPod{key: key, id: id}
		k.pods[key] = p
	}
	return p
}

func (k *inventory) dropSandbox(b *inventorySandbox) {
	delete(k.sandboxes, b.ID)
	p := k.pods[b.key]
	p.sandboxes = slices.DeleteFunc(p.sandboxes, func(x *inventorySandbox) bool { return x == b })
	p.changed = true
}

func (k *inventory) dropContainer(c *inventoryContainer) {
	delete(k.containers, c.ID)
	p := k.pods[c.key]
	p.containers = slices.DeleteFunc(p.containers, func(x *inventoryContainer) bool { return x == c })
	p.changed = true
}

// publish rebuilds the pods that changed and the lists of pods. What earlier
// lists returned is not modified.
func (k *inventory) publish() {
	k.own, k.foreign = make([]*Pod, 0, len(k.pods)), nil
	for key, p := range k.pods {
		if len(p.sandboxes)+len(p.containers) == 0 {
			delete(k.pods, key)
			continue
		}
		if p.changed {
			p.published, p.changed = p.observed(), false
		}
		if key.own {
			k.own = append(k.own, p.published)
		} else {
			k.foreign = append(k.foreign, p.published)
		}
	}
}

func (p *inventoryPod) observed() *Pod {
	seen := &Pod{UID: p.key.uid, Name: p.id.name, Namespace: p.id.namespace}
	if len(p.sandboxes) > 0 {
		seen.Sandboxes = make([]Sandbox, len(p.sandboxes))
		for i, b := range p.sandboxes {
			seen.Sandboxes[i] = b.Sandbox
		}
		sortSandboxes(seen.Sandboxes)
		seen.Source = seen.Sandboxes[0].Annotations[podinfo.AnnotationSource]
	}
	if len(p.containers) > 0 {
		seen.Containers = make([]Container, len(p.containers))
		for i, c := range p.containers {
			seen.Containers[i] = c.Container
		}
		sortContainers(seen.Containers)
	}
	return seen
}
