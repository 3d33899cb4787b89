package kubeapi

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/apistatus"
)

// reviewGroups are the API groups of reviews about the caller.
var reviewGroups = []metav1.APIResourceList{
	{GroupVersion: "authentication.k8s.io/v1", APIResources: []metav1.APIResource{
		{Name: "selfsubjectreviews", SingularName: "selfsubjectreview", Kind: "SelfSubjectReview", Verbs: metav1.Verbs{"create"}},
	}},
	{GroupVersion: "authorization.k8s.io/v1", APIResources: []metav1.APIResource{
		{Name: "selfsubjectaccessreviews", SingularName: "selfsubjectaccessreview", Kind: "SelfSubjectAccessReview", Verbs: metav1.Verbs{"create"}},
	}},
}

// accessReview serves kubectl auth can-i.
func (a *API) accessReview(w http.ResponseWriter, r *http.Request) {
	review, err := readReview(r)
	if err != nil || review.Spec.ResourceAttributes == nil {
		apistatus.Write(w, r, badRequest("the body must be a SelfSubjectAccessReview with spec.resourceAttributes"))
		return
	}
	q := review.Spec.ResourceAttributes
	required, reason := a.requiredClass(q.Verb, q.Group, q.Resource, q.Subresource)
	review.Status = authorizationv1.SubjectAccessReviewStatus{Reason: reason}
	if required != 0 {
		review.Status.Allowed = access.CallerFrom(r.Context()).Classes.Has(required)
		if !review.Status.Allowed {
			review.Status.Reason = "requires the access class " + required.String()
		}
	}
	review.TypeMeta = metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"}
	writeJSON(w, http.StatusCreated, review)
}

// protobufPrefix is the prefix of a body in protobuf, which kubectl prefers for types that
// it knows.
const protobufPrefix = "k8s\x00"

// maxReview is the maximum size of a review in bytes; one has a few hundred.
const maxReview = 64 << 10

func readReview(r *http.Request) (*authorizationv1.SelfSubjectAccessReview, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReview))
	if err != nil {
		return nil, err
	}
	var review authorizationv1.SelfSubjectAccessReview
	encoded, ok := bytes.CutPrefix(body, []byte(protobufPrefix))
	if !ok {
		return &review, json.Unmarshal(body, &review)
	}
	var wrapped runtime.Unknown
	if err := wrapped.Unmarshal(encoded); err != nil {
		return nil, err
	}
	return &review, review.Unmarshal(wrapped.Raw)
}

// requiredClass returns the access class for an action on a resource, or 0 and the reason
// if no caller may perform it.
func (a *API) requiredClass(verb, group, resource, subresource string) (access.Class, string) {
	reads := verb == "get" || verb == "list" || verb == "watch"
	switch {
	case group == "metrics.k8s.io" && reads:
		return access.Metrics, ""
	case group != "":
		return 0, "not served by podstead"
	case resource == "pods" && subresource == "log" && verb == "get":
		return access.Logs, ""
	case resource == "pods" && (subresource == "exec" || subresource == "attach" || subresource == "portforward") && (verb == "create" || verb == "get"):
		return access.Exec, ""
	case subresource != "":
		return 0, "not served by podstead"
	}
	for _, res := range a.resources {
		switch {
		case res.name != resource:
		case !reads:
			return 0, "this API is read-only: " + res.writeHint
		case res.adminView != nil:
			return access.Admin, "" // other callers see only names
		default:
			return access.Read, ""
		}
	}
	return 0, "not served by podstead"
}

// whoami serves kubectl auth whoami.
func whoami(w http.ResponseWriter, r *http.Request) {
	caller := access.CallerFrom(r.Context())
	writeJSON(w, http.StatusCreated, map[string]any{
		"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": map[string]any{},
		"status": map[string]any{"userInfo": map[string]any{
			"username": caller.User, "extra": map[string][]string{"podstead/access": strings.Split(caller.Classes.String(), "|")},
		}},
	})
}

// postOnly answers other methods than POST with 405.
func postOnly(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			apistatus.Write(w, r, apistatus.New(http.StatusMethodNotAllowed, "reviews require POST"))
			return
		}
		handle(w, r)
	}
}
