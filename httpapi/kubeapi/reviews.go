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
)

// The groups of what a caller may ask about himself.
var reviewGroups = []metav1.APIResourceList{
	{GroupVersion: "authentication.k8s.io/v1", APIResources: []metav1.APIResource{
		{Name: "selfsubjectreviews", SingularName: "selfsubjectreview", Kind: "SelfSubjectReview", Verbs: metav1.Verbs{"create"}},
	}},
	{GroupVersion: "authorization.k8s.io/v1", APIResources: []metav1.APIResource{
		{Name: "selfsubjectaccessreviews", SingularName: "selfsubjectaccessreview", Kind: "SelfSubjectAccessReview", Verbs: metav1.Verbs{"create"}},
	}},
}

// review answers kubectl auth can-i.
func (a *API) accessReview(w http.ResponseWriter, r *http.Request) {
	asked, err := readReview(r)
	if err != nil || asked.Spec.ResourceAttributes == nil {
		writeStatus(w, badRequest("want a SelfSubjectAccessReview with spec.resourceAttributes"))
		return
	}
	q := asked.Spec.ResourceAttributes
	needed, why := a.requiredClass(q.Verb, q.Group, q.Resource, q.Subresource)
	asked.Status = authorizationv1.SubjectAccessReviewStatus{Reason: why}
	if needed != 0 {
		asked.Status.Allowed = access.CallerFrom(r.Context()).Classes.Has(needed)
		if !asked.Status.Allowed {
			asked.Status.Reason = "needs the access class " + needed.String()
		}
	}
	asked.TypeMeta = metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"}
	writeJSON(w, http.StatusCreated, asked)
}

// protobufPrefix begins what clients send that prefer it to JSON, as kubectl does
// for a type that it knows.
const protobufPrefix = "k8s\x00"

func readReview(r *http.Request) (*authorizationv1.SelfSubjectAccessReview, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var asked authorizationv1.SelfSubjectAccessReview
	encoded, ok := bytes.CutPrefix(body, []byte(protobufPrefix))
	if !ok {
		return &asked, json.Unmarshal(body, &asked)
	}
	var wrapped runtime.Unknown
	if err := wrapped.Unmarshal(encoded); err != nil {
		return nil, err
	}
	return &asked, asked.Unmarshal(wrapped.Raw)
}

// needed is the class that an act on a resource needs; 0 with the reason if
// nobody may.
func (a *API) requiredClass(verb, group, resource, subresource string) (access.Class, string) {
	reads := verb == "get" || verb == "list" || verb == "watch"
	switch {
	case group == "metrics.k8s.io" && reads:
		return access.Metrics, ""
	case group != "":
		return 0, "podstead does not serve it"
	case resource == "pods" && subresource == "log" && verb == "get":
		return access.Logs, ""
	case resource == "pods" && (subresource == "exec" || subresource == "attach" || subresource == "portforward") && (verb == "create" || verb == "get"):
		return access.Exec, ""
	case subresource != "":
		return 0, "podstead does not serve it"
	}
	for _, res := range a.resources {
		switch {
		case res.name != resource:
		case !reads:
			return 0, "this API can only be read: " + res.writeHint
		case res.adminView != nil:
			return access.Admin, "" // others see names only
		default:
			return access.Read, ""
		}
	}
	return 0, "podstead does not serve it"
}

// whoami answers kubectl auth whoami.
func whoami(w http.ResponseWriter, r *http.Request) {
	caller := access.CallerFrom(r.Context())
	writeJSON(w, http.StatusCreated, map[string]any{
		"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": map[string]any{},
		"status": map[string]any{"userInfo": map[string]any{
			"username": caller.User, "extra": map[string][]string{"podstead/access": strings.Split(caller.Classes.String(), "|")},
		}},
	})
}

// posted lets a client send what it asks.
func postOnly(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			writeStatus(w, newStatus(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "a review is asked for with POST"))
			return
		}
		handle(w, r)
	}
}
