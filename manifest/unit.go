package manifest

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Unit is one file, one URL body or one OCI artifact, which is accepted or rejected as a
// whole.
type Unit struct {
	// Name is the file path or URL, or the repository of an artifact.
	Name string
	// Digest is the sha256 of the bytes of the accepted revision, in hex.
	Digest string
	// Revision is the digest of the artifact of the accepted revision, ALGORITHM:HEX; empty
	// for other sources.
	Revision string
	// Content is the content of the accepted revision; empty if there never was
	// one.
	Content
	// Faults are the faults of the newest bytes. If they are fatal, Content is
	// that of the last good revision.
	Faults Faults
	// Restored reports that the content comes from the checkpoint, because the
	// newest bytes are invalid or could not be read.
	Restored bool
	// Missing reports that the last scan did not find the unit. Its content
	// remains in effect until a second scan confirms that, but a pod of another
	// unit with the same UID replaces its pod at once, since that is a renamed
	// file. The same holds for an object with the same name.
	Missing bool
}

// Content is what a unit declares.
type Content struct {
	// Documents are the pods.
	Documents []Document
	// Objects are the objects other than pods.
	Objects []Object
}

// isEmpty reports whether removing the unit affects nothing.
func (c *Content) isEmpty() bool { return len(c.Documents) == 0 && len(c.Objects) == 0 }

// Document is one accepted pod of a unit.
type Document struct {
	// Digest is the sha256, in hex, of the document as decoded, before
	// defaulting, in canonical JSON. An equal digest means an equal UID, even
	// if a newer version changes defaulting or hashing.
	Digest string `json:"digest"`
	// Pod is defaulted, validated and has its static-pod identity, except
	// AnnotationSeen, which PodConfig sets.
	Pod *v1.Pod `json:"pod"`
}

// Set is the full content of one source at one time.
type Set struct {
	Source Source
	// Units are sorted by name.
	Units []Unit
	// Removed are the names of units that the source confirmed to be absent
	// since its previous set: it could be read, and does not contain them. Their
	// records are deleted, even if the set is not complete.
	Removed []string
	// Fault is set if the source as a whole could not be read (the directory is
	// missing, the URL does not respond); Units are then the last good ones.
	Fault *Fault
	// Restored reports that the source has not had a complete set in this run of
	// the daemon. Units come from the checkpoint, or from a source that is not
	// complete.
	Restored bool
	// Incomplete are the names of the units that keep the set from being
	// complete, because they are invalid and have no last good revision: which
	// pods belong to them is not known.
	Incomplete []string
	// Ignored are the names in the source's directory that are not read, see IsIgnored.
	Ignored []string
	// Awaited reports that a unit was not read yet and is not in the checkpoint either, so
	// that nothing is known of its pods.
	Awaited bool
	// Time is when the source was read.
	Time time.Time
}

// Source names where a pod comes from; see internal/pod.
type Source = podinfo.Source

// The sources of pods.
const (
	SourceFile = podinfo.SourceFile
	SourceHTTP = podinfo.SourceHTTP
	SourceOCI  = podinfo.SourceOCI
	SourceAPI  = podinfo.SourceAPI
)

// Op is the operation of a PodUpdate.
type Op uint8

// The operations of a PodUpdate, in the order in which PodConfig sends those
// of one set, but for Restore, which stands alone.
const (
	// Remove terminates pods that their source no longer declares.
	Remove Op = iota + 1
	// Add adds new pods. The first set of a source always ends with an Add, an
	// empty one if necessary, which tells the sync loop that the source is
	// ready.
	Add
	// Update changes a pod under the same UID.
	Update
	// Delete marks pods that got a deletionTimestamp (API pods only).
	Delete
	// Reconcile updates pods of which only the status differs (API pods only).
	Reconcile
	// Restore adds pods while their source is not complete: those that it has,
	// and those of the checkpoint. Pods are started as with Add, but the source
	// does not become ready.
	Restore
)

// String returns the name of the operation for logs.
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

// PodUpdate is one change for the sync loop. The pods are shared and must not
// be written to.
type PodUpdate struct {
	Op     Op
	Source Source
	Pods   []*v1.Pod
	// Replaced are those pods of a Remove whose name another pod has taken,
	// usually the next revision of an edited manifest. It is used to report why
	// the pod terminates; nil is none.
	Replaced map[types.UID]bool
	// Successors are those of Replaced whose name another static pod has taken: an
	// update that follows adds it. nil is none.
	Successors map[types.UID]bool
	// FromCheckpoint are those pods of a Restore whose manifest this run of the
	// daemon could not read; nil is none. It is used for the log.
	FromCheckpoint map[types.UID]bool
	// Awaited reports that the pods of a Restore are not all that the source has had; see
	// Set.
	Awaited bool
}
