package httpapi

import (
	"net/http"

	"github.com/podstead/podstead/api"
)

// ManifestLister lists the state of every source.
type ManifestLister interface {
	Manifests() []api.ManifestSource
}

func manifests(l ManifestLister) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := l.Manifests()
		if list == nil {
			list = []api.ManifestSource{}
		}
		writeJSON(w, list)
	}
}
