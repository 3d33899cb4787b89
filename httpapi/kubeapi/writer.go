package kubeapi

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/internal/objectpatch"
	"github.com/podstead/podstead/internal/objectwrite"
)

// Writer changes the manifests that declare objects. Its errors are objectwrite.Errors.
type Writer interface {
	Find(objectwrite.Ref) (objectwrite.Declared, error)
	Create(ctx context.Context, object map[string]any, o objectwrite.Options) (objectwrite.Written, error)
	Update(ctx context.Context, ref objectwrite.Ref, u objectwrite.Update, o objectwrite.Options) (objectwrite.Written,
		error)
	Delete(ctx context.Context, ref objectwrite.Ref, r objectwrite.Removal, o objectwrite.Options) (objectwrite.Written,
		error)
}

// requestFailure is an error that a client gets as it is.
type requestFailure struct{ status *metav1.Status }

// Error implements error.
func (f *requestFailure) Error() string { return f.status.Message }

// fail returns a requestFailure.
func fail(code int, format string, args ...any) error {
	return &requestFailure{apistatus.New(code, format, args...)}
}

// writeCodes are the HTTP status codes of the reasons why a write failed.
var writeCodes = map[objectwrite.Reason]int{
	objectwrite.Invalid: http.StatusUnprocessableEntity, objectwrite.Conflict: http.StatusConflict,
	objectwrite.Exists:   http.StatusConflict,
	objectwrite.NotFound: http.StatusNotFound, objectwrite.Forbidden: http.StatusForbidden,
	objectwrite.Internal: http.StatusInternalServerError,
}

// statusOf returns an error of a write as clients get it.
func statusOf(err error) *metav1.Status {
	var failure *requestFailure
	if errors.As(err, &failure) {
		return failure.status
	}
	reason := objectwrite.ReasonOf(err)
	s := apistatus.New(writeCodes[reason], "%v", err)
	if reason == objectwrite.Exists {
		s.Reason = metav1.StatusReasonAlreadyExists
	}
	var write *objectwrite.Error
	if errors.As(err, &write) && reason == objectwrite.Invalid && len(write.Causes) > 0 {
		s.Details = &metav1.StatusDetails{Name: write.Object}
		for _, c := range write.Causes {
			s.Details.Causes = append(s.Details.Causes,
				metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: c.Field, Message: c.Message})
		}
	}
	return s
}

// viewOf returns what clients see of an object in addition to what its manifest declares, under the name of the
// request. e is nil if the API does not show it.
func viewOf(res *resource, e *entry, namespace, name, declared string) objectwrite.View {
	v := objectwrite.View{Name: name, DeclaredName: declared}
	if res.namespaced {
		v.Namespace = namespace
	}
	if e == nil {
		return v
	}
	v.FullName, v.UID, v.ResourceVersion = e.object.GetName(), string(e.object.GetUID()), e.object.GetResourceVersion()
	v.Since, v.Until = e.declared, e.version
	v.BoundField, v.BoundValue = boundField(e.object)
	if live, err := objectpatch.Decode(e.bytes()); err == nil {
		metadata, _ := live["metadata"].(map[string]any)
		spec, _ := live["spec"].(map[string]any)
		v.Status, v.Created, v.Ephemeral = live["status"], metadata["creationTimestamp"], spec["ephemeralContainers"]
	}
	return v
}
