package kubeapi

import (
	"net/http"
	"runtime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/podstead/podstead/internal/kubeversion"
)

// apiVersions serves /api: the version of the core group.
func apiVersions(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, &metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"},
		Versions: []string{"v1"},
		// There are no other server addresses.
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	})
}

// apiGroups serves /apis: the groups in addition to the core group.
func (a *API) apiGroups(w http.ResponseWriter, _ *http.Request) {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups: []metav1.APIGroup{}}
	for _, g := range a.groups {
		list.Groups = append(list.Groups, groupOf(g))
	}
	writeJSON(w, http.StatusOK, list)
}

// groupOf returns the group with its only version.
func groupOf(g metav1.APIResourceList) metav1.APIGroup {
	name, version, _ := strings.Cut(g.GroupVersion, "/")
	known := metav1.GroupVersionForDiscovery{GroupVersion: g.GroupVersion, Version: version}
	return metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{known}, PreferredVersion: known}
}

// serveGroup serves /apis/GROUP and /apis/GROUP/VERSION.
func (a *API) serveGroup(g metav1.APIResourceList) {
	group := groupOf(g)
	group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
	g.TypeMeta = metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}
	for path, response := range map[string]any{"/apis/" + group.Name: &group, "/apis/" + g.GroupVersion: &g} {
		handle := a.readOnly(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, response) })
		a.mux.HandleFunc(path, handle)
		a.mux.HandleFunc(path+"/{$}", handle)
	}
}

// apiResources serves /api/v1.
func (a *API) apiResources(w http.ResponseWriter, _ *http.Request) {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: "v1",
	}
	for _, r := range a.resources {
		if r.group == "" {
			list.APIResources = append(list.APIResources, a.describe(r))
		}
	}
	list.APIResources = append(list.APIResources, a.subresources...)
	writeJSON(w, http.StatusOK, list)
}

// describe returns a resource for discovery.
func (a *API) describe(r *resource) metav1.APIResource {
	return metav1.APIResource{
		Name: r.name, SingularName: r.singular, Kind: r.kind, Namespaced: r.namespaced,
		ShortNames: r.short, Categories: r.categories, Verbs: a.verbs(r),
	}
}

// resourceGroups returns the groups of the served resources.
func (a *API) resourceGroups() (groups []metav1.APIResourceList) {
	for _, r := range a.resources {
		if r.group == "" {
			continue
		}
		if last := len(groups) - 1; last < 0 || groups[last].GroupVersion != r.apiVersion() {
			groups = append(groups, metav1.APIResourceList{GroupVersion: r.apiVersion()})
		}
		last := &groups[len(groups)-1]
		last.APIResources = append(last.APIResources, a.describe(r))
	}
	return groups
}

// verbs returns what clients can do with a resource.
func (a *API) verbs(r *resource) metav1.Verbs {
	if r.declared && a.writer != nil {
		return metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	}
	return metav1.Verbs{"get", "list", "watch"}
}

// versionInfo serves /version: the Kubernetes release of the API, and podstead's version in
// gitVersion.
func (a *API) versionInfo(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, &version.Info{
		Major: kubeversion.Major, Minor: kubeversion.Minor, GitVersion: kubeversion.Semantic(a.version),
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}
