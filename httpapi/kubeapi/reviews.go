package kubeapi

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
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
		{Name: "selfsubjectreviews", SingularName: "selfsubjectreview", Kind: "SelfSubjectReview",
			Verbs: metav1.Verbs{"create"}},
	}},
	{GroupVersion: "authorization.k8s.io/v1", APIResources: []metav1.APIResource{
		{Name: "selfsubjectaccessreviews", SingularName: "selfsubjectaccessreview", Kind: "SelfSubjectAccessReview",
			Verbs: metav1.Verbs{"create"}},
		{Name: "selfsubjectrulesreviews", SingularName: "selfsubjectrulesreview", Kind: "SelfSubjectRulesReview",
			Verbs: metav1.Verbs{"create"}},
	}},
}

// accessReview serves kubectl auth can-i.
func (a *API) accessReview(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SelfSubjectAccessReview
	err := readReview(r, &review)
	q, path := review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes
	if err != nil || (q == nil) == (path == nil) {
		apistatus.Write(w, r, badRequest("the body must be a SelfSubjectAccessReview with spec.resourceAttributes or "+
			"spec.nonResourceAttributes"))
		return
	}
	var required access.Class
	var reason string
	if q != nil {
		required, reason = a.requiredClass(q.Verb, q.Group, q.Resource, q.Subresource)
	} else {
		required, reason = pathClass(path.Verb, path.Path)
	}
	review.Status = authorizationv1.SubjectAccessReviewStatus{Reason: reason}
	if required != 0 {
		review.Status.Allowed = access.CallerFrom(r.Context()).Classes.Has(required)
		if !review.Status.Allowed {
			review.Status.Reason = "requires the access class " + required.String()
		}
	}
	review.TypeMeta = metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"}
	writeJSON(w, http.StatusCreated, &review)
}

// rulesReview serves kubectl auth can-i --list.
func (a *API) rulesReview(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SelfSubjectRulesReview
	if err := readReview(r, &review); err != nil {
		apistatus.Write(w, r, badRequest("the body must be a SelfSubjectRulesReview: %v", err))
		return
	}
	may := access.CallerFrom(r.Context()).Classes
	status := &review.Status
	status.ResourceRules, status.NonResourceRules = []authorizationv1.ResourceRule{}, []authorizationv1.NonResourceRule{}
	add := func(group, resource string, verbs []string) {
		resource, subresource, _ := strings.Cut(resource, "/")
		allowed := slices.DeleteFunc(slices.Clone(verbs), func(verb string) bool {
			class, _ := a.requiredClass(verb, group, resource, subresource)
			return class == 0 || !may.Has(class)
		})
		if subresource != "" {
			resource += "/" + subresource
		}
		if len(allowed) > 0 {
			status.ResourceRules = append(status.ResourceRules,
				authorizationv1.ResourceRule{Verbs: allowed, APIGroups: []string{group}, Resources: []string{resource}})
		}
	}
	for _, res := range a.resources {
		if res.group == "" {
			add("", res.name, a.verbs(res))
		}
	}
	for _, s := range a.subresources {
		add("", s.Name, s.Verbs)
	}
	for _, g := range a.groups {
		for _, res := range g.APIResources {
			add(groupOf(g).Name, res.Name, res.Verbs)
		}
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/metrics", "/version", "/api", "/api/*", "/apis",
		"/apis/*", "/openapi/*"} {
		if class, _ := pathClass("get", strings.TrimSuffix(path, "*")); class != 0 && may.Has(class) {
			status.NonResourceRules = append(status.NonResourceRules,
				authorizationv1.NonResourceRule{Verbs: []string{"get"}, NonResourceURLs: []string{path}})
		}
	}
	review.TypeMeta = metav1.TypeMeta{Kind: "SelfSubjectRulesReview", APIVersion: "authorization.k8s.io/v1"}
	writeJSON(w, http.StatusCreated, &review)
}

// pathClass returns the access class for a path that is no resource, or 0 and the reason if no
// caller may use it. The classes are those of the table of routes, which a test compares.
func pathClass(verb, path string) (access.Class, string) {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	reads := verb == "get" || verb == "head"
	switch first {
	case "exec", "attach", "portForward":
		if verb == "get" || verb == "post" {
			return access.Exec, ""
		}
	case "run":
		if verb == "post" {
			return access.Exec, ""
		}
	case "checkpoint":
		if verb == "post" {
			return access.Admin, ""
		}
	case "healthz", "livez", "readyz":
		if reads {
			return access.Health, ""
		}
	case "metrics", "stats":
		if reads {
			return access.Metrics, ""
		}
	case "containerLogs":
		if reads {
			return access.Logs, ""
		}
	case "logs", "debug":
		if reads {
			return access.Admin, ""
		}
	case "version", "api", "apis", "openapi", "pods", "runningpods", "spec", "configz":
		if reads {
			return access.Read, ""
		}
	}
	return 0, "not served by podstead"
}

// PathClass returns the access class that reviews report for a verb on a path that is no resource;
// 0 for one that is not served.
func PathClass(verb, path string) access.Class {
	class, _ := pathClass(verb, path)
	return class
}

// protobufPrefix is the prefix of a body in protobuf, which kubectl prefers for types that
// it knows.
const protobufPrefix = "k8s\x00"

// protobufType is the Content-Type of such a body.
const protobufType = "application/vnd.kubernetes.protobuf"

// maxReview is the maximum size of a review in bytes; one has a few hundred.
const maxReview = 64 << 10

func readReview(r *http.Request, review interface{ Unmarshal([]byte) error }) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReview))
	if err != nil {
		return err
	}
	encoded, ok := bytes.CutPrefix(body, []byte(protobufPrefix))
	if !ok {
		return json.Unmarshal(body, review)
	}
	var wrapped runtime.Unknown
	if err := wrapped.Unmarshal(encoded); err != nil {
		return err
	}
	return review.Unmarshal(wrapped.Raw)
}

// requiredClass returns the access class for an action on a resource, or 0 and the reason
// if no caller may perform it.
func (a *API) requiredClass(verb, group, resource, subresource string) (access.Class, string) {
	if verb == "*" || resource == "*" {
		return a.requiredForAll(verb, group, resource, subresource)
	}
	reads := verb == "get" || verb == "list" || verb == "watch"
	writes := verb == "create" || verb == "update" || verb == "patch" || verb == "delete"
	switch {
	case group == "metrics.k8s.io" && reads:
		return access.Metrics, ""
	case group == "authorization.k8s.io" || group == "authentication.k8s.io":
		if verb == "create" && strings.HasPrefix(resource, "selfsubject") {
			return access.Read, ""
		}
		return 0, "not served by podstead"
	case group == "" && resource == "nodes" && subresource == "proxy":
		// The least that any endpoint requires: each has a class of its own.
		switch verb {
		case "get":
			return access.Health, "each endpoint requires an access class of its own"
		case "create":
			return access.Exec, "each endpoint requires an access class of its own"
		}
		return 0, "podstead does not support the verb " + verb
	case group == "" && resource == "pods" && subresource == "log" && verb == "get":
		return access.Logs, ""
	case group == "" && resource == "pods" &&
		(subresource == "exec" || subresource == "attach" || subresource == "portforward") &&
		(verb == "create" || verb == "get"):
		return access.Exec, ""
	case group == "" && resource == "pods" && subresource == "ephemeralcontainers" && a.ephemeral != nil &&
		(verb == "get" || verb == "update" || verb == "patch"):
		if verb == "get" {
			return access.Read, ""
		}
		return access.Write, ""
	case subresource != "":
		return 0, "not served by podstead"
	}
	for _, res := range a.resources {
		switch {
		case res.name != resource || res.group != group:
		case writes && res.declared && a.writer != nil:
			return access.Write, ""
		case !reads && res.declared && a.writer != nil:
			return 0, "podstead does not support the verb " + verb
		case !reads:
			return 0, "this API is read-only: " + res.writeHint
		case res.adminView != nil:
			return access.Write, "" // other callers see only names
		default:
			return access.Read, ""
		}
	}
	return 0, "not served by podstead"
}

// requiredForAll returns the access classes for a verb, a resource or both of which one is "*". They
// are those of all that podstead serves: what no caller can do is not asked for.
func (a *API) requiredForAll(verb, group, resource, subresource string) (all access.Class, reason string) {
	ask := func(resourceGroup, name string, verbs []string) {
		own, sub, _ := strings.Cut(name, "/")
		if resource != "*" && resource != own || group != "*" && group != resourceGroup || subresource != "*" &&
			sub != subresource {
			return
		}
		for _, v := range verbs {
			if verb == "*" || verb == v {
				class, _ := a.requiredClass(v, resourceGroup, own, sub)
				all |= class
			}
		}
	}
	for _, res := range a.resources {
		ask(res.group, res.name, a.verbs(res))
	}
	for _, s := range a.subresources {
		ask("", s.Name, s.Verbs)
	}
	if all == 0 {
		return 0, "not served by podstead"
	}
	return all, ""
}

// whoami serves kubectl auth whoami.
func whoami(w http.ResponseWriter, r *http.Request) {
	caller := access.CallerFrom(r.Context())
	writeJSON(w, http.StatusCreated, map[string]any{
		"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": map[string]any{},
		"status": map[string]any{"userInfo": map[string]any{
			"username": caller.User,
			"extra":    map[string][]string{"podstead/access": strings.Split(caller.Classes.String(), "|")},
		}},
	})
}

// postOnly serves other methods than POST with 405.
func postOnly(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			apistatus.Write(w, r, apistatus.New(http.StatusMethodNotAllowed, "reviews require POST"))
			return
		}
		handle(w, r)
	}
}
