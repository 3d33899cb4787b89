package httpapi

import (
	"net/http"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/access"
)

// ObjectLister lists the objects in effect, sorted by kind, namespace and name.
type ObjectLister interface {
	Objects() []api.ManifestObject
}

func objects(l ObjectLister) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		admin := access.CallerFrom(r.Context()).Classes.Has(access.Write)
		list := []api.ManifestObject{}
		for _, o := range l.Objects() {
			if o.Kind == "Secret" && !admin {
				o.Keys = nil
			}
			list = append(list, o)
		}
		writeJSON(w, list)
	}
}
