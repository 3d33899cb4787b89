package daemon

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/node/oom"
	"github.com/podstead/podstead/supervisor"
)

// Event reasons. The node's is the kubelet's. The pod's is podstead's own: a killed
// process that is not the first one of its container leaves no trace in the pod's
// status.
const (
	reasonSystemOOM  = "SystemOOM"
	reasonOOMKilling = "OOMKilling"
)

// reportOOMKill returns a function that records events for a process that the kernel's
// OOM killer killed.
func reportOOMKill(p *observers, sup *supervisor.Supervisor) func(oom.Kill) {
	return func(k oom.Kill) {
		owner := ownerOf(p, k)
		if text := k.NodeMessage(owner); text != "" {
			p.events.Event(nil, v1.EventTypeWarning, reasonSystemOOM, text)
		}
		if owner == nil {
			return
		}
		for _, pod := range sup.Pods() {
			if pod.UID == types.UID(owner.PodUID) {
				p.events.Event(pod, v1.EventTypeWarning, reasonOOMKilling, k.PodMessage(owner))
				// The exit may have been seen before this record of it, and the
				// runtime may report the reason of an exit later than the exit.
				p.pleg.Relist(pod.UID)
			}
		}
	}
}

// ownerOf returns the container that the killed process ran in, nil for a process
// outside of podstead's pods.
func ownerOf(p *observers, k oom.Kill) *oom.Owner {
	for _, pod := range p.pleg.Observed().Own {
		for i := range pod.Containers {
			o := oom.Owner{Pod: pod.FullName(), PodUID: string(pod.UID), Name: pod.Containers[i].Name, ID: pod.Containers[i].ID}
			if o.Has(k) {
				return &o
			}
		}
	}
	return nil
}
