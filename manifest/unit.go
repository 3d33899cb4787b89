package manifest

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Unit is one file or one URL body: what is accepted or refused as a whole.
type Unit struct {
	// Name is the file path or URL.
	Name string
	// Digest is the sha256 of the bytes of the accepted revision, in hex.
	Digest string
	// Content is that of the accepted revision; empty if none ever was.
	Content
	// Faults are those of the newest bytes. If they are fatal, Documents are
	// those of the last good revision.
	Faults Faults
	// Restored says that the content comes from the checkpoint because the
	// newest bytes are faulty or could not be read.
	Restored bool
	// Gone says that the last look did not find the unit. Its content stands
	// until a second look confirms that, but a pod of another unit with the
	// same UID takes its place at once: that is a renamed file. So does an
	// object of the same name.
	Missing bool
}

// Content is what a unit holds.
type Content struct {
	// Documents are the pods.
	Documents []Document
	// Objects are what it declares beside pods.
	Objects []Object
}

// isEmpty tells a unit that may go without anything that runs losing what it
// was made of.
func (c *Content) isEmpty() bool { return len(c.Documents) == 0 && len(c.Objects) == 0 }

// Document is one accepted pod of a unit.
type Document struct {
	// Digest is the sha256, in hex, of the document as decoded, before
	// defaulting, in canonical JSON. An equal digest means an equal UID,
	// whatever a newer version defaults or hashes.
	Digest string `json:"digest"`
	// Pod is defaulted, validated and has its static-pod identity, apart
	// from AnnotationSeen, which PodConfig stamps.
	Pod *v1.Pod `json:"pod"`
}

// Set is the full content of one source at one time.
type Set struct {
	Source Source
	// Units in the order of their names.
	Units []Unit
	// Fault is set when the source as a whole could not be read (the folder
	// is gone, the URL does not answer); Units are then the last good ones.
	Fault *Fault
	// Restored says that the source has not delivered in this run of the
	// daemon, and Units come from the checkpoint alone.
	Restored bool
	// Time is when the source was read.
	Time time.Time
}

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
