package objectwrite

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/objectpatch"
)

// Ref names an object in the manifests. Namespace is empty for objects without one.
type Ref struct{ Kind, Namespace, Name string }

// Options are how an object is written.
type Options struct {
	// DryRun does everything but writing.
	DryRun bool
	// User is who writes, for events.
	User string
}

// Declared is an object that a manifest declares.
type Declared struct {
	// Object is the object with defaults, as the daemon reads it; that of a Secret has the stringData of its
	// document too. Document is what the manifest specifies. Both must not be written to.
	Object, Document map[string]any
	// Digest identifies the content.
	Digest string
	// Pending reports that the daemon has not read the manifest yet.
	Pending bool
}

// Update is a change of an object: a patch of what its client was shown.
type Update struct {
	Patch objectpatch.Patch
	View  View
}

// Removal is a deletion of an object.
type Removal struct {
	// UID is that of the pod that runs, empty for other objects.
	UID types.UID
	// Grace replaces the grace period of the pod, in seconds; nil leaves it.
	Grace *int64
	// ResourceVersion is the one that the client requires, empty for any. It is that of the object in effect, so
	// that the deletion is refused while the daemon has not read the manifest.
	ResourceVersion string
}

// Written is an object after a write.
type Written struct {
	// Object is the object as the API is going to show it, without its status; after a deletion
	// it may be nil.
	Object map[string]any
	// Applied is the annotation of kubectl apply that the client sent, which is not stored; empty for none.
	Applied string
	// Changed is false if nothing had to be written.
	Changed  bool
	Warnings []string
}
