package httpapi

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
)

// StartReader knows how long the pods took to start that this daemon has started.
type StartReader interface {
	// PodStart returns the duration and the steps of a start. ok is false for a pod that
	// still starts, or that an earlier daemon started.
	PodStart(uid types.UID) (start api.PodStart, ok bool)
}

// podStarts responds with the starts of all pods that have one.
func podStarts(pods PodLister, starts StartReader) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := []api.PodStart{}
		for _, p := range pods.Pods() {
			if start, ok := starts.PodStart(p.UID); ok {
				start.Namespace, start.Name, start.UID = p.Namespace, p.Name, p.UID
				list = append(list, start)
			}
		}
		writeJSON(w, list)
	}
}
