package kubeapi

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/apistatus"
)

// ObjectName names an object in the manifests. Namespace is empty for objects without one.
type ObjectName struct{ Kind, Namespace, Name string }

// WriteOptions are how an object is written.
type WriteOptions struct {
	// DryRun does everything but writing.
	DryRun bool
	// User is who writes, for events.
	User string
}

// Declared is an object that a manifest declares.
type Declared struct {
	// Object is the object with defaults, as the API shows it, and Document as the manifest has
	// it. Both must not be written to.
	Object, Document map[string]any
	// Pending says that the daemon has not read the manifest yet.
	Pending bool
}

// Update is a change of an object.
type Update struct {
	// Wanted returns what the object is to be, with its defaults. It is called again if the
	// manifest has changed meanwhile.
	Wanted func(Declared) (map[string]any, error)
	// Whole says that the client sends all of the object, and not a change of what it was shown.
	Whole bool
}

// Removal is a deletion of an object.
type Removal struct {
	// UID is that of the pod that runs, empty for other objects.
	UID types.UID
	// Grace replaces the grace period of the pod, in seconds; nil leaves it.
	Grace *int64
	// Check refuses the deletion with an error; nil allows it.
	Check func(Declared) error
}

// Written is an object after a write.
type Written struct {
	// Object is the object as the API is going to show it, without its status; after a deletion
	// it may be nil.
	Object map[string]any
	// Changed is false if nothing had to be written.
	Changed  bool
	Warnings []string
}

// Writer changes the manifests that declare objects. Its errors are Failures, or those that the
// callbacks return.
type Writer interface {
	Find(ObjectName) (Declared, error)
	Create(ctx context.Context, object map[string]any, o WriteOptions) (Written, error)
	Update(ctx context.Context, name ObjectName, u Update, o WriteOptions) (Written, error)
	Delete(ctx context.Context, name ObjectName, r Removal, o WriteOptions) (Written, error)
}

// Failure is an error that a client gets as it is.
type Failure struct{ Status *metav1.Status }

// Error implements error.
func (f *Failure) Error() string { return f.Status.Message }

// fail returns a Failure.
func fail(code int, format string, args ...any) error {
	return &Failure{apistatus.New(code, format, args...)}
}
