package kubeapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podstead/podstead/httpapi/access"
)

// Config configures an API.
type Config struct {
	Sources  Sources
	Versions *Versions
	// Version is the version of podstead.
	Version string
	// Manifest returns the file or URL that declares an object, for the error of a write;
	// empty if it is not known. It may be nil.
	Manifest func(kind, namespace, name string) string
	// Subresources are listed in discovery, and served by other handlers.
	Subresources []metav1.APIResource
	// Groups are the API groups in addition to the core group, each with its version and
	// resources. They are listed in discovery, and served by other handlers.
	Groups []metav1.APIResourceList
}

// API is the handler of /api, /apis, /openapi/v3 and /version.
type API struct {
	mux          *http.ServeMux
	resources    []*resource
	subresources []metav1.APIResource
	groups       []metav1.APIResourceList
	manifest     func(kind, namespace, name string) string
	version      string
}

// New returns an API. Without Run its watches get changes only when another request refreshes
// the cache.
func New(c Config) *API {
	a := &API{
		mux: http.NewServeMux(), resources: resources(c.Sources, c.Versions),
		subresources: c.Subresources, groups: slices.Clone(c.Groups), manifest: c.Manifest, version: cmp.Or(c.Version, "unknown"),
	}
	if a.manifest == nil {
		a.manifest = func(string, string, string) string { return "" }
	}
	for _, r := range a.resources {
		r.cache.kind = schema.GroupVersionKind{Version: "v1", Kind: r.kind}
		if r.adminView != nil {
			r.adminView.cache.kind = r.cache.kind
		}
	}
	for path, handle := range map[string]http.HandlerFunc{
		"/api":        apiVersions,
		"/apis":       a.apiGroups,
		"/api/v1":     a.apiResources,
		"/version":    a.versionInfo,
		"/openapi/v3": a.openAPIIndex,
		openAPIPath:   a.openAPI,
	} {
		a.mux.HandleFunc(path, a.readOnly(handle))
		if path != "/version" {
			a.mux.HandleFunc(path+"/{$}", a.readOnly(handle))
		}
	}
	a.groups = append(a.groups, reviewGroups...)
	for _, g := range a.groups {
		a.serveGroup(g)
	}
	a.mux.HandleFunc("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", postOnly(a.accessReview))
	a.mux.HandleFunc("/apis/authentication.k8s.io/v1/selfsubjectreviews", postOnly(whoami))
	a.mux.HandleFunc("/api/v1/{resource}", a.collection)
	a.mux.HandleFunc("/api/v1/{resource}/{name}", a.object)
	a.mux.HandleFunc("/api/v1/namespaces/{namespace}/{resource}", a.collection)
	a.mux.HandleFunc("/api/v1/namespaces/{namespace}/{resource}/{name}", a.object)
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeStatus(w, newStatus(http.StatusNotFound, metav1.StatusReasonNotFound, "podstead does not serve %s; it serves %s", r.URL.Path, a.names()))
	})
	return a
}

func (a *API) names() string {
	text := ""
	for i, r := range a.resources {
		if i > 0 {
			text += ", "
		}
		text += r.name
	}
	return text
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Run notifies watches of changes until ctx ends.
func (a *API) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, r := range a.resources {
		all.Go(func() { r.cache.run(ctx) })
		if r.adminView != nil {
			all.Go(func() { r.adminView.cache.run(ctx) })
		}
	}
	all.Wait()
	return nil
}

// readOnly answers a write with 405.
func (a *API) readOnly(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writeStatus(w, newStatus(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "this API is read-only"))
			return
		}
		handle(w, r)
	}
}

// find returns the resource of a path. It answers the request and returns nil if there is
// none, or if the request is a write.
func (a *API) find(w http.ResponseWriter, r *http.Request) *resource {
	name, namespace := r.PathValue("resource"), r.PathValue("namespace")
	for _, res := range a.resources {
		// A cluster-scoped resource has no namespace. A namespaced one is listed without a
		// namespace for all of them.
		if res.name != name || namespace != "" && !res.namespaced || namespace == "" && res.namespaced && r.PathValue("name") != "" {
			continue
		}
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			if res.adminView != nil && access.CallerFrom(r.Context()).Classes.Has(access.Admin) {
				return res.adminView
			}
			return res
		}
		hint := res.writeHint
		if file := a.manifest(res.kind, namespace, r.PathValue("name")); file != "" {
			hint = "edit " + file + " instead"
		} else if res.name == "pods" {
			hint += "; add, edit or remove a manifest instead"
		}
		writeStatus(w, newStatus(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "%s are read-only in this API: %s", res.name, hint))
		return nil
	}
	writeStatus(w, newStatus(http.StatusNotFound, metav1.StatusReasonNotFound, "podstead does not serve %s; it serves %s", r.URL.Path, a.names()))
	return nil
}

// object serves one object.
func (a *API) object(w http.ResponseWriter, r *http.Request) {
	res := a.find(w, r)
	if res == nil {
		return
	}
	e := res.cache.get(r.PathValue("namespace"), r.PathValue("name"))
	if e == nil {
		writeStatus(w, notFound(res, r.PathValue("name")))
		return
	}
	form, failure := formOf(r)
	switch {
	case failure != nil:
		writeStatus(w, failure)
	case form.table:
		writeJSON(w, http.StatusOK, form.tableOf(res, []*entry{e}, e.object.GetResourceVersion()))
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(e.bytes())
	}
}

// collection serves a list or a watch.
func (a *API) collection(w http.ResponseWriter, r *http.Request) {
	res := a.find(w, r)
	if res == nil {
		return
	}
	form, failure := formOf(r)
	if failure != nil {
		writeStatus(w, failure)
		return
	}
	choice, failure := selectionOf(r, res)
	if failure != nil {
		writeStatus(w, failure)
		return
	}
	if watches, failure := boolParam(r, "watch"); failure != nil {
		writeStatus(w, failure)
	} else if watches {
		serveWatch(w, r, res, form, choice)
	} else {
		serveList(w, r, res, form, choice)
	}
}
