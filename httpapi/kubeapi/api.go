package kubeapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podstead/podstead/httpapi/access"
	"github.com/podstead/podstead/httpapi/apistatus"
	"github.com/podstead/podstead/internal/objectwrite"
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
	// Writer changes manifests; nil makes the API read-only.
	Writer Writer
	// Ephemeral changes the ephemeral containers of pods; nil serves none.
	Ephemeral EphemeralUpdater
	// Node is the name of the node, and ManifestName returns the name of a pod in its manifest.
	// Without them a pod has only its full name.
	Node         string
	ManifestName func(*v1.Pod) string
	// Remedy returns what to do about a kind that is not supported.
	Remedy func(kind, apiVersion string) string
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
	remedy       func(kind, apiVersion string) string
	version      string
	writer       Writer
	ephemeral    EphemeralUpdater
	node         string
	manifestName func(*v1.Pod) string
	// writes and localWrites are the slots of writes.
	writes, localWrites chan struct{}
	// receives and localReceives are the slots of requests whose bodies are being received.
	receives, localReceives chan struct{}
}

// New returns an API. Without Run its watches get changes only when another request refreshes
// the cache.
func New(c Config) *API {
	a := &API{
		mux: http.NewServeMux(), resources: resources(c.Sources, c.Versions),
		subresources: c.Subresources, groups: slices.Clone(c.Groups), manifest: c.Manifest,
		version: cmp.Or(c.Version, "unknown"),
		writer:  c.Writer, ephemeral: c.Ephemeral, manifestName: c.ManifestName, writes: make(chan struct{}, maxWrites),
		localWrites: make(chan struct{}, localWrites),
		receives:    make(chan struct{}, maxReceives), localReceives: make(chan struct{}, localReceives),
	}
	if c.ManifestName != nil {
		a.node = c.Node
	}
	a.remedy = func(kind, apiVersion string) string {
		if c.Remedy == nil {
			return "declare pods in manifests instead"
		}
		// The client has no document to remove.
		text := strings.TrimSuffix(c.Remedy(kind, apiVersion), "remove the document")
		return strings.TrimRight(strings.TrimSuffix(text, ", and "), "; ")
	}
	if a.manifest == nil {
		a.manifest = func(string, string, string) string { return "" }
	}
	for _, r := range a.resources {
		r.cache.kind = schema.FromAPIVersionAndKind(r.apiVersion(), r.kind)
		switch r.kind {
		case "Pod":
			r.fullNames = a.podNames
		case "Event":
			if r.group != "" {
				break
			}
			r.fullNames = a.involvedNames
		}
		if r.adminView != nil {
			r.adminView.cache.kind = r.cache.kind
		}
	}
	for path, handle := range map[string]http.HandlerFunc{
		"/api":                                  apiVersions,
		"/apis":                                 a.apiGroups,
		"/api/v1":                               a.apiResources,
		"/version":                              a.versionInfo,
		openAPIPath:                             a.openAPIIndex,
		"/openapi/v2":                           a.openAPIv2,
		openAPIPath + "/api/v1":                 a.openAPI,
		openAPIPath + "/apis/{group}/{version}": a.openAPI,
	} {
		a.mux.HandleFunc(path, a.readOnly(handle))
		if path != "/version" {
			a.mux.HandleFunc(path+"/{$}", a.readOnly(handle))
		}
	}
	a.groups = append(append(a.groups, a.resourceGroups()...), reviewGroups...)
	for _, g := range a.groups {
		a.serveGroup(g)
	}
	a.mux.HandleFunc("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", postOnly(a.accessReview))
	a.mux.HandleFunc("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", postOnly(a.rulesReview))
	a.mux.HandleFunc("/apis/authentication.k8s.io/v1/selfsubjectreviews", postOnly(whoami))
	for _, prefix := range []string{"/api/v1", "/apis/{group}/{version}"} {
		a.mux.HandleFunc(prefix+"/{resource}", a.collection)
		a.mux.HandleFunc(prefix+"/{resource}/{name}", a.object)
		a.mux.HandleFunc(prefix+"/namespaces/{namespace}/{resource}", a.collection)
		a.mux.HandleFunc(prefix+"/namespaces/{namespace}/{resource}/{name}", a.object)
	}
	a.mux.HandleFunc("/api/v1/namespaces/{namespace}/pods/{name}/{subresource}", a.podSubresource)
	a.mux.HandleFunc("/api/v1/nodes/{name}/proxy", a.nodeProxy)
	a.mux.HandleFunc("/api/v1/nodes/{name}/proxy/", a.nodeProxy)
	a.mux.HandleFunc("/", a.notServed)
	return a
}

// names lists the resources of which there can be objects.
func (a *API) names() string {
	var names []string
	for _, r := range a.resources {
		if !r.unsupported {
			names = append(names, r.name)
		}
	}
	return strings.Join(names, ", ")
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

// readOnly serves a write with 405.
func (a *API) readOnly(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			apistatus.Write(w, r, apistatus.New(http.StatusMethodNotAllowed, "this API is read-only"))
			return
		}
		handle(w, r)
	}
}

// find returns the resource of a path for a request that reads it. It serves other requests,
// and those for a resource that does not exist, and returns nil.
func (a *API) find(w http.ResponseWriter, r *http.Request) *resource {
	name, namespace := r.PathValue("resource"), r.PathValue("namespace")
	for _, res := range a.resources {
		// A cluster-scoped resource has no namespace. A namespaced one is listed without a
		// namespace for all of them.
		if res.name != name || res.group != r.PathValue("group") || res.group != "" &&
			res.version != r.PathValue("version") ||
			namespace != "" && !res.namespaced || namespace == "" && res.namespaced && r.PathValue("name") != "" {
			continue
		}
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			if res.adminView != nil && access.CallerFrom(r.Context()).Classes.Has(access.Write) {
				return res.adminView
			}
			return res
		}
		if res.declared && a.writer != nil {
			a.write(w, r, res)
			return nil
		}
		if res.unsupported {
			apistatus.Write(w, r, apistatus.New(http.StatusMethodNotAllowed, "podstead does not support %s: %s", res.name,
				a.remedy(res.kind, res.apiVersion())))
			return nil
		}
		object := r.PathValue("name")
		if e, _ := a.lookup(res, namespace, object); object != "" && e == nil {
			apistatus.Write(w, r, a.notFound(res, namespace, object))
			return nil
		}
		hint := res.writeHint
		if file := a.manifest(res.kind, namespace, object); file != "" {
			hint = "edit " + file + " instead"
		} else if res.name == "pods" {
			hint += "; add, edit or remove a manifest instead"
		}
		apistatus.Write(w, r, apistatus.New(http.StatusMethodNotAllowed, "%s are read-only in this API: %s", res.name, hint))
		return nil
	}
	a.notServed(w, r)
	return nil
}

// notServed serves a request for a path that podstead does not serve. The details have no
// name: with one, clients would take the object for missing, not its resource.
func (a *API) notServed(w http.ResponseWriter, r *http.Request) {
	s := apistatus.New(http.StatusNotFound, "podstead does not serve %s; it serves %s", r.URL.Path, a.names())
	s.Details = &metav1.StatusDetails{}
	s.Details.Group, s.Details.Kind, _ = apistatus.ObjectOf(r.URL.Path)
	apistatus.Write(w, r, s)
}

// podSubresources reports what to do instead of using a subresource of a pod that podstead does
// not serve.
var podSubresources = map[string]string{
	"ephemeralcontainers": "the API is read-only",
	"eviction":            "remove the manifest of the pod to end it, or restart it with podstead restart",
	"resize":              "change the resources in the manifest instead",
	"status":              "podstead writes the status of pods",
	"binding":             "all pods run on this node",
	"proxy":               "use kubectl port-forward",
}

// podSubresource serves a request for a subresource of a pod that has no route of its own.
func (a *API) podSubresource(w http.ResponseWriter, r *http.Request) {
	name, subresource := r.PathValue("name"), r.PathValue("subresource")
	hint, known := podSubresources[subresource]
	if !known && !slices.ContainsFunc(a.subresources,
		func(s metav1.APIResource) bool { return s.Name == "pods/"+subresource }) {
		a.notServed(w, r)
		return
	}
	for _, res := range a.resources {
		if res.name != "pods" {
			continue
		}
		e, _ := a.lookup(res, r.PathValue("namespace"), name)
		if e == nil {
			apistatus.Write(w, r, a.notFound(res, r.PathValue("namespace"), name))
			return
		}
		if subresource == "ephemeralcontainers" && a.ephemeral != nil {
			a.ephemeralContainers(w, r, res, e)
			return
		}
	}
	text := "pods/" + subresource + " does not support " + r.Method
	if known {
		text = "podstead does not serve pods/" + subresource + ": " + hint
	}
	apistatus.Write(w, r, apistatus.New(http.StatusMethodNotAllowed, "%s", text))
}

// nodeProxy reports what the server has not passed on to an endpoint of this node.
func (a *API) nodeProxy(w http.ResponseWriter, r *http.Request) {
	for _, res := range a.resources {
		if res.kind == "Node" && res.cache.get("", r.PathValue("name")) == nil {
			apistatus.Write(w, r, a.notFound(res, "", r.PathValue("name")))
			return
		}
	}
	s := apistatus.New(http.StatusNotFound,
		"nodes/proxy serves the kubelet's endpoints of this node, such as /healthz, /metrics and /stats/summary")
	s.Details = &metav1.StatusDetails{Kind: "nodes"}
	apistatus.Write(w, r, s)
}

// object serves one object.
func (a *API) object(w http.ResponseWriter, r *http.Request) {
	res := a.find(w, r)
	if res == nil {
		return
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	e, declared := a.lookup(res, namespace, name)
	if e == nil || name != e.object.GetName() && a.isUndeclared(r, res, namespace, declared) {
		apistatus.Write(w, r, a.notFound(res, namespace, name))
		return
	}
	form, failure := formOf(r)
	switch {
	case failure != nil:
		apistatus.Write(w, r, failure)
	case form.table:
		writeJSON(w, http.StatusOK, form.tableOf(res, []*entry{e}, e.object.GetResourceVersion()))
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a.single(r, res, e, declared))
	}
}

// single returns one object as JSON, under the name of the request. Callers that may write it see
// what its manifest declares, also if that is not in effect, with the status of what runs: what
// kubectl edit, set image and apply send is the difference to what they were shown.
func (a *API) single(r *http.Request, res *resource, e *entry, declared string) []byte {
	name, namespace := r.PathValue("name"), r.PathValue("namespace")
	if a.writer != nil && res.declared && access.CallerFrom(r.Context()).Classes.Has(access.Write) {
		if d, err := a.writer.Find(objectwrite.Ref{Kind: res.kind, Namespace: namespace, Name: declared}); err == nil {
			view := viewOf(res, e, namespace, name, declared)
			shown := view.Show(&d)
			delete(shown, "stringData")
			for key, value := range e.object.GetAnnotations() {
				if slices.Contains(identityAnnotations, key) {
					objectwrite.SetAnnotation(shown, key, value)
				}
			}
			shown["kind"], shown["apiVersion"] = res.kind, res.apiVersion()
			return mustJSON(shown)
		}
	}
	if name == e.object.GetName() {
		return e.bytes()
	}
	own := e.object.DeepCopyObject().(Object)
	own.SetName(name)
	return mustJSON(own)
}

// collection serves a list or a watch.
func (a *API) collection(w http.ResponseWriter, r *http.Request) {
	res := a.find(w, r)
	if res == nil {
		return
	}
	form, failure := formOf(r)
	if failure != nil {
		apistatus.Write(w, r, failure)
		return
	}
	choice, failure := selectionOf(r, res)
	if failure != nil {
		apistatus.Write(w, r, failure)
		return
	}
	if watches, failure := boolParam(r, "watch"); failure != nil {
		apistatus.Write(w, r, failure)
	} else if watches {
		serveWatch(w, r, res, form, choice)
	} else {
		serveList(w, r, res, form, choice)
	}
}
