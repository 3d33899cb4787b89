package manifest

import (
	"time"

	v1 "k8s.io/api/core/v1"
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
	Gone bool
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
