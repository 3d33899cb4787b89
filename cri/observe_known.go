package cri

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// known is what earlier lists showed, by ID. It holds what the last list held
// and nothing else.
type known struct {
	instance string
	scratch  sync.Pool // of *scratch

	mu         sync.Mutex
	round      uint64
	sandboxes  map[string]*knownSandbox
	containers map[string]*knownContainer
	pods       map[podKey]*knownPod
	own        []*Pod
	foreign    []*Pod
}

// podKey tells pods apart: should another client use a UID of ours, its pod
// is still not ours.
type podKey struct {
	uid types.UID
	own bool
}

// knownPod joins what belongs together. published was given out and is never
// written to again.
type knownPod struct {
	key        podKey
	id         identity
	sandboxes  []*knownSandbox
	containers []*knownContainer
	published  *Pod
	changed    bool
}

type knownSandbox struct {
	Sandbox
	key     podKey
	id      identity
	created int64
	round   uint64 // of the last list that showed it
}

type knownContainer struct {
	Container
	key     podKey
	id      identity
	created int64
	round   uint64
}

func newKnown(instance string) *known {
	k := &known{
		instance:   instance,
		sandboxes:  map[string]*knownSandbox{},
		containers: map[string]*knownContainer{},
		pods:       map[podKey]*knownPod{},
	}
	k.scratch.New = func() any { return &scratch{known: k} }
	return k
}

func (k *known) ours(labels map[string]string) bool {
	return k.instance != "" && labels[LabelInstance] == k.instance
}

// newSandbox reads all of a sandbox that was not seen before; nil if it does
// not say whose it is.
func (k *known) newSandbox(s *runtimeapi.PodSandbox) *knownSandbox {
	id := identify(s)
	if id.uid == "" {
		return nil
	}
	own := k.ours(s.Labels)
	return &knownSandbox{Sandbox: observedSandbox(s, own), key: podKey{id.uid, own}, id: id, created: s.CreatedAt}
}

// newContainer is newSandbox for a container. Without labels it cannot be
// told whose it is; its sandbox stands for it.
func (k *known) newContainer(c *runtimeapi.Container) *knownContainer {
	id := identity{types.UID(c.Labels[LabelPodUID]), c.Labels[LabelPodName], c.Labels[LabelPodNamespace]}
	if id.uid == "" {
		return nil
	}
	own := k.ours(c.Labels)
	return &knownContainer{Container: observedContainer(c, own), key: podKey{id.uid, own}, id: id, created: c.CreatedAt}
}

// apply makes what a list showed the known, and gives it out.
func (k *known) apply(s *scratch, at time.Time) *Observed {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.round++
	changed := k.applySandboxes(s.sandboxes)
	changed = k.applyContainers(s.containers) || changed
	if changed {
		k.publish()
	}
	return &Observed{Own: k.own, Foreign: k.foreign, At: at}
}

func (k *known) applySandboxes(items []sandboxItem) (changed bool) {
	live := 0
	for _, item := range items {
		b := item.known
		old := k.sandboxes[b.ID]
		if old != nil && old.round == k.round {
			continue // shown twice
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
		b.round = k.round
		live++
	}
	if live < len(k.sandboxes) {
		changed = true
		for _, b := range k.sandboxes {
			if b.round != k.round {
				k.dropSandbox(b)
			}
		}
	}
	return changed
}

func (k *known) applyContainers(items []containerItem) (changed bool) {
	live := 0
	for _, item := range items {
		c := item.known
		old := k.containers[c.ID]
		if old != nil && old.round == k.round {
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
		if now := state(runtimeapi.ContainerState(item.state)); c.State != now {
			c.State = now
			k.pods[c.key].changed, changed = true, true
		}
		c.round = k.round
		live++
	}
	if live < len(k.containers) {
		changed = true
		for _, c := range k.containers {
			if c.round != k.round {
				k.dropContainer(c)
			}
		}
	}
	return changed
}

func (k *known) pod(key podKey, id identity) *knownPod {
	p := k.pods[key]
	if p == nil {
		p = &knownPod{key: key, id: id}
		k.pods[key] = p
	}
	return p
}

func (k *known) dropSandbox(b *knownSandbox) {
	delete(k.sandboxes, b.ID)
	p := k.pods[b.key]
	p.sandboxes = slices.DeleteFunc(p.sandboxes, func(x *knownSandbox) bool { return x == b })
	p.changed = true
}

func (k *known) dropContainer(c *knownContainer) {
	delete(k.containers, c.ID)
	p := k.pods[c.key]
	p.containers = slices.DeleteFunc(p.containers, func(x *knownContainer) bool { return x == c })
	p.changed = true
}

// publish makes the pods that changed anew and the lists of pods with them;
// what was given out stays as it is.
func (k *known) publish() {
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

func (p *knownPod) observed() *Pod {
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
