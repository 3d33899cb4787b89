package noderesources

import (
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// Refusal is why a pod does not start now, and what follows from it.
type Refusal struct {
	// Cause is shown in the status; nil leaves the status as it is, and sends no event.
	Cause *status.Cause
	// Final: a pod whose policy is to be rejected is rejected, unless it was admitted before. Others are
	// held.
	Final bool
	// Event is when an event is sent. Notice is its message if it is none of a fault; empty is a warning
	// with the message of the cause.
	Event  EventRule
	Notice string
	// KeepsPlace: the pod keeps its place in the queues of all resources. Otherwise it keeps that in the
	// queue of the resource that refuses.
	KeepsPlace bool
	// GivesBack: what was reserved for the pod is released. It is for a refusal of Prepare; one of
	// Reserve always does.
	GivesBack bool
	// Fault: something failed on the node. A pod that has a sandbox goes on without, and the cause is shown
	// only until the next attempt.
	Fault bool
	// Save: the record is saved, so that the place outlives the daemon.
	Save bool
	// Result is that of the sync.
	Result podworkers.SyncResult
}

// EventRule is when an event is sent for a Refusal.
type EventRule uint8

// The rules.
const (
	NoEvent EventRule = iota
	EachTime
	OncePerCause
)

// Held holds a pod until the cause has passed. The kubelet fails such a pod for good. Here it waits for
// another manifest, or a daemon with other settings: it is synced again whenever a pod ends, and one
// event is sent.
func Held(cause *status.Cause) *Refusal {
	return &Refusal{Cause: cause, Event: OncePerCause, Result: podworkers.SyncResult{Held: true}}
}

// Rejected is for a pod that does not pass admission: a pod of the cluster is Failed, so that its
// controller creates another one elsewhere; a static pod waits.
func Rejected(cause *status.Cause) *Refusal {
	refusal := Held(cause)
	refusal.Final = true
	return refusal
}

// Failed is for a pod for which something failed on the node: it is tried again.
func Failed(reason string, err error) *Refusal {
	return &Refusal{
		Cause: &status.Cause{Reason: reason, Message: err.Error()}, Event: EachTime, Fault: true,
		Result: podworkers.SyncResult{Err: err, EventSent: true},
	}
}

// Interrupted ends an attempt whose context has ended, and shows nothing.
func Interrupted(err error) *Refusal {
	return &Refusal{Result: podworkers.SyncResult{Err: err}}
}
