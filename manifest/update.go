package manifest

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Source names where a pod comes from; see internal/pod.
type Source = podinfo.Source

// The sources of pods.
const (
	SourceFile = podinfo.SourceFile
	SourceHTTP = podinfo.SourceHTTP
	SourceAPI  = podinfo.SourceAPI
)

// Op says what a PodUpdate asks for.
type Op uint8

// The operations of a PodUpdate, in the order in which PodConfig sends those
// of one set, but for Restore, which stands alone.
const (
	// Remove ends pods that their source no longer holds.
	Remove Op = iota + 1
	// Add brings pods that were not there. The first set of a source is
	// always followed by an Add, an empty one if need be: that is how the
	// sync loop learns that the source has delivered.
	Add
	// Update brings a new revision under the same UID.
	Update
	// Delete brings pods that got a deletionTimestamp (API pods only).
	Delete
	// Reconcile brings pods of which only the status differs (API pods only).
	Reconcile
	// Restore brings pods from the checkpoint while their source does not
	// answer. It starts pods as Add does, but the source does not count as
	// having delivered.
	Restore
)

// String is the operation's name in logs.
func (o Op) String() string {
	switch o {
	case Remove:
		return "REMOVE"
	case Add:
		return "ADD"
	case Update:
		return "UPDATE"
	case Delete:
		return "DELETE"
	case Reconcile:
		return "RECONCILE"
	case Restore:
		return "RESTORE"
	}
	return "UNKNOWN"
}

// PodUpdate is one change on its way to the sync loop. The pods are shared
// and must not be written to.
type PodUpdate struct {
	Op     Op
	Source Source
	Pods   []*v1.Pod
	// Replaced, of a Remove, are those of the pods whose name another pod has
	// taken: mostly the next revision from an edited manifest. It is for
	// telling people why the pod ends; nil is none.
	Replaced map[types.UID]bool
}
