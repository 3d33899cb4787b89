package httpapi

import (
	"net/http"

	"github.com/podstead/podstead/httpapi/access"
)

// Object describes an object that manifests declare in addition to pods, without its
// content.
type Object struct {
	Kind string `json:"kind"`
	// Namespace is empty for cluster-scoped objects, such as classes.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Source is file or http, Manifest the path or URL of the manifest.
	Source   string `json:"source"`
	Manifest string `json:"manifest"`
	// Revision changes with the content, and does not reveal it.
	Revision string `json:"revision"`
	// Keys are the keys in the data of a ConfigMap or Secret. Only callers of the class Write see those of a
	// Secret.
	Keys []string `json:"keys,omitempty"`
	// Type is the type of a Secret.
	Type string `json:"type,omitempty"`
}

// ObjectLister lists the objects in effect, sorted by kind, namespace and name.
type ObjectLister interface {
	Objects() []Object
}

func objects(l ObjectLister) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		admin := access.CallerFrom(r.Context()).Classes.Has(access.Write)
		list := []Object{}
		for _, o := range l.Objects() {
			if o.Kind == "Secret" && !admin {
				o.Keys = nil
			}
			list = append(list, o)
		}
		writeJSON(w, list)
	}
}
