package httpapi

import (
	"net/http"

	"github.com/podstead/podstead/httpapi/access"
)

// Object is one of the objects that manifests declare beside pods, as far as
// anybody may know it: what it holds is not told.
type Object struct {
	Kind string `json:"kind"`
	// Namespace is empty for a class.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Source is file or http, Manifest the file path or URL in it.
	Source   string `json:"source"`
	Manifest string `json:"manifest"`
	// Revision changes with the content and does not tell what that is.
	Revision string `json:"revision"`
	// Keys are those of the data of a ConfigMap or Secret; of a Secret admins
	// alone are told.
	Keys []string `json:"keys,omitempty"`
	// Type is that of a Secret.
	Type string `json:"type,omitempty"`
}

// ObjectLister gives the objects in effect, by kind, namespace and name.
type ObjectLister interface {
	Objects() []Object
}

func objects(l ObjectLister) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		whole := access.CallerFrom(r.Context()).Classes.Has(access.Admin)
		list := []Object{}
		for _, o := range l.Objects() {
			if o.Kind == "Secret" && !whole {
				o.Keys = nil
			}
			list = append(list, o)
		}
		writeJSON(w, list)
	}
}
