package oom

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Event reasons. The node's is the kubelet's. The pod's is podstead's own: a killed
// process that is not the first one of its container leaves no trace in the pod's
// status.
const (
	reasonSystemOOM  = "SystemOOM"
	reasonOOMKilling = "OOMKilling"
)

// Reporter records events for the processes that the kernel's OOM killer killed.
type Reporter struct {
	// Containers are those of podstead's pods, as they were last observed.
	Containers func() iter.Seq[Owner]
	Pods       func() []*v1.Pod
	Events     Recorder
	// Relist is called for a pod after the event: the exit may have been seen before this record of it, and
	// the runtime may report the reason of an exit later than the exit.
	Relist func(types.UID)
}

// Recorder records events; pod is nil for events of the node.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Report records the events of a kill.
func (r Reporter) Report(k Kill) {
	owner := r.ownerOf(k)
	if text := k.NodeMessage(owner); text != "" {
		r.Events.Event(nil, v1.EventTypeWarning, reasonSystemOOM, text)
	}
	if owner == nil {
		return
	}
	for _, pod := range r.Pods() {
		if pod.UID == types.UID(owner.PodUID) {
			r.Events.Event(pod, v1.EventTypeWarning, reasonOOMKilling, k.PodMessage(owner))
			r.Relist(pod.UID)
		}
	}
}

// ownerOf returns the container that the killed process ran in, nil for a process
// outside of podstead's pods.
func (r Reporter) ownerOf(k Kill) *Owner {
	for o := range r.Containers() {
		if o.Has(k) {
			return &o
		}
	}
	return nil
}
