package main

import (
	"log/slog"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/node/oom"
	"github.com/podstead/podstead/supervisor"
)

// Reasons of events: the kubelet's of the node, and ours of the pod whose
// process it was. A process that is not a container's first one may be killed
// without a trace in the pod's status.
const (
	reasonSystemOOM  = "SystemOOM"
	reasonOOMKilling = "OOMKilling"
)

// newOOMWatcher tells of processes that the kernel killed.
func newOOMWatcher(p parts, sup *supervisor.Supervisor, log *slog.Logger) *oom.Watcher {
	return oom.New(oom.Config{Log: log, Tell: func(k oom.Kill) {
		owner := ownerOf(p, k)
		if text := k.OfNode(owner); text != "" {
			p.events.Event(nil, v1.EventTypeWarning, reasonSystemOOM, text)
		}
		if owner == nil {
			return
		}
		for _, pod := range sup.Pods() {
			if pod.UID == types.UID(owner.PodUID) {
				p.events.Event(pod, v1.EventTypeWarning, reasonOOMKilling, k.OfPod(owner))
				// The runtime may say why the container ended after it said that.
				p.observer.Relist(pod.UID)
			}
		}
	}})
}

// ownerOf is the container of ours that the victim was in, nil if it was in none.
func ownerOf(p parts, k oom.Kill) *oom.Owner {
	for _, pod := range p.observer.Observed().Own {
		for i := range pod.Containers {
			o := oom.Owner{Pod: pod.FullName(), PodUID: string(pod.UID), Name: pod.Containers[i].Name, ID: pod.Containers[i].ID}
			if o.Has(k) {
				return &o
			}
		}
	}
	return nil
}
