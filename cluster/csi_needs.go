package cluster

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// csiNeeds are what the CSI volumes of a pod need of the API server, each once. They are found step by step:
// a claim must be bound before its driver is known, and the driver's object known before it is clear
// whether the volume is to be attached. They do not count for the limits of references: a claim has few.
type csiNeeds struct {
	drivers     []string
	attachments []attachmentKey
	tokens      []tokenKey
	secrets     []manifest.ObjectRef
}

// csiNeedsOf returns what is known of the needs of a pod's CSI volumes; mu is held.
func (o *Objects) csiNeedsOf(pod *v1.Pod) (n csiNeeds) {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		switch {
		case volume.CSI != nil:
			o.addDriver(&n, pod, volume.CSI.Driver)
		case podinfo.ClaimOf(pod, volume) != "":
			if c := o.claims[claimOf(pod, volume)]; c != nil && c.volume != nil && c.volume.Spec.CSI != nil {
				o.addPersistent(&n, pod, c.volume.Spec.CSI)
			}
		}
	}
	return n
}

// addDriver adds the needs of a driver, and reports whether it needs an attachment of PersistentVolumes.
func (o *Objects) addDriver(n *csiNeeds, pod *v1.Pod, name string) (attaches bool) {
	addOnce(&n.drivers, name)
	known := o.drivers[name]
	if known == nil || known.driver == nil {
		return false
	}
	for i := range known.driver.Tokens {
		addOnce(&n.tokens, driverToken(pod, &known.driver.Tokens[i]))
	}
	return known.driver.Attach
}

func (o *Objects) addPersistent(n *csiNeeds, pod *v1.Pod, source *v1.CSIPersistentVolumeSource) {
	if o.addDriver(n, pod, source.Driver) {
		addOnce(&n.attachments, attachmentOf(pod, source))
	}
	for _, ref := range []*v1.SecretReference{source.NodeStageSecretRef, source.NodePublishSecretRef,
		source.NodeExpandSecretRef} {
		if ref != nil {
			addOnce(&n.secrets, manifest.ObjectRef{Kind: manifest.KindSecret, Namespace: ref.Namespace, Name: ref.Name})
		}
	}
}

// addOnce appends an item unless it is there; the lists are short.
func addOnce[T comparable](list *[]T, item T) {
	for _, there := range *list {
		if there == item {
			return
		}
	}
	*list = append(*list, item)
}

// updateCSI starts and stops what the CSI volumes of the admitted pods need, and adds their secrets and
// tokens to those that are wanted; mu is held.
func (o *Objects) updateCSI(ctx context.Context, wg *sync.WaitGroup, a *Adapter, w *watchSet) {
	drivers, attachments := map[string]bool{}, map[attachmentKey]bool{}
	for _, p := range w.admitted {
		n := o.csiNeedsOf(p.pod)
		for _, name := range n.drivers {
			drivers[name] = true
		}
		for _, key := range n.attachments {
			attachments[key] = true
		}
		for _, key := range n.tokens {
			w.tokens[key] = true
		}
		for _, ref := range n.secrets {
			w.refs[ref] = true
		}
	}
	updateTasks(o.drivers, drivers, func(d *csiDriver) { d.stop() },
		func(name string) *csiDriver { return o.startDriver(ctx, wg, a, name) })
	updateTasks(o.attachments, attachments, func(t *attachment) { t.stop() }, func(key attachmentKey) *attachment {
		a.nodeChanged.Notify() // it is in use from now on
		return o.startAttachment(ctx, wg, a, key)
	})
}

// csiState adds to State what the CSI volumes of a pod need; mu is held.
func (o *Objects) csiState(pod *v1.Pod) (revision string, refs []manifest.ObjectRef, tokens []tokenKey,
	awaited []string) {
	n := o.csiNeedsOf(pod)
	for _, name := range n.drivers {
		state, known := o.drivers[name].state()
		if !known {
			awaited = append(awaited, "CSIDriver "+name)
		}
		revision += "CSIDriver " + name + "=" + state + "\n"
	}
	for _, key := range n.attachments {
		state := o.attachments[key].state()
		if o.adapter != nil && o.adapter.reportsInUse(key.id()) {
			state += " in use"
		}
		if o.adapter != nil && o.adapter.reportsAttached(key.id()) {
			state += " in volumesAttached"
		}
		revision += "attachment of " + key.driver + " " + key.handle + "=" + state + "\n"
	}
	return revision, n.secrets, n.tokens, awaited
}
