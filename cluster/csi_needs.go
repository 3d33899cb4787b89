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
// whether the volume is to be attached. Of these only the drivers of inline volumes count for the limits of
// references: a claim has one driver and one attachment and at most three secrets, and of the drivers only those that
// an administrator has installed need tokens.
type csiNeeds struct {
	drivers     uniqueList[string]
	attachments uniqueList[attachmentKey]
	tokens      uniqueList[tokenKey]
	secrets     uniqueList[manifest.ObjectRef]
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
	if !n.drivers.add(name) {
		driver, _ := o.drivers.find(name)
		return driver.Attach
	}
	driver, _ := o.drivers.find(name)
	for i := range driver.Tokens {
		n.tokens.add(driverToken(pod, &driver.Tokens[i]))
	}
	return driver.Attach
}

func (o *Objects) addPersistent(n *csiNeeds, pod *v1.Pod, source *v1.CSIPersistentVolumeSource) {
	if o.addDriver(n, pod, source.Driver) {
		n.attachments.add(attachmentOf(pod, source))
	}
	for _, ref := range []*v1.SecretReference{source.NodeStageSecretRef, source.NodePublishSecretRef,
		source.NodeExpandSecretRef} {
		if ref != nil {
			n.secrets.add(manifest.ObjectRef{Kind: manifest.KindSecret, Namespace: ref.Namespace, Name: ref.Name})
		}
	}
}

// driversOf returns the drivers of a pod's inline volumes, each once.
func driversOf(pod *v1.Pod) []string {
	var names uniqueList[string]
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].CSI; source != nil {
			names.add(source.Driver)
		}
	}
	return names.items
}

// updateCSI starts and stops what the CSI volumes of the admitted pods need, and adds their secrets and
// tokens to those that are desired; mu is held.
func (o *Objects) updateCSI(ctx context.Context, wg *sync.WaitGroup, a *Adapter, w *watchSet) {
	used, attachments := false, map[attachmentKey]bool{}
	for _, p := range w.admitted {
		n := o.csiNeedsOf(p.pod)
		used = used || len(n.drivers.items) > 0
		for _, key := range n.attachments.items {
			attachments[key] = true
		}
		for _, key := range n.tokens.items {
			w.tokens[key] = true
		}
		for _, ref := range n.secrets.items {
			w.refs[ref] = true
		}
	}
	o.updateDrivers(ctx, wg, a, used)
	updateTasks(o.attachments, attachments, func(_ attachmentKey, t *attachment) { t.stop() },
		func(key attachmentKey) *attachment {
			a.nodeChanged.Notify() // it is in use from now on
			return o.startAttachment(ctx, wg, a, key)
		})
}

// csiState adds to s what the CSI volumes of a pod need, and returns the needs; mu is held.
func (o *Objects) csiState(pod *v1.Pod, s *podState) csiNeeds {
	n := o.csiNeedsOf(pod)
	for _, name := range n.drivers.items {
		state, known := o.drivers.state(name)
		s.add("CSIDriver "+name, state)
		if !known {
			s.await("CSIDriver " + name)
		}
	}
	for _, key := range n.attachments.items {
		state := o.attachments[key].state()
		if o.adapter != nil && o.adapter.reportsInUse(key.id()) {
			state += " in use"
		}
		if o.adapter != nil && o.adapter.reportsAttached(key.id()) {
			state += " in volumesAttached"
		}
		s.add("attachment of "+key.driver+" "+key.handle, state)
	}
	return n
}
