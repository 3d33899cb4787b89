package httpapi

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"
)

// PodStart is how long a pod took to start.
type PodStart struct {
	// Namespace and Name are those of the pod, with the node's suffix.
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Seconds are from the acceptance of the pod until all its containers were started.
	Seconds float64 `json:"seconds"`
	// Steps are the known parts of it, in the order in which they began.
	Steps []StartStep `json:"steps"`
}

// StartStep is a part of a start: volumes, sandbox, image, create or start.
type StartStep struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// StartReader knows how long the pods took to start that this daemon has started.
type StartReader interface {
	// PodStart returns the duration and the steps of a start. ok is false for a pod that
	// still starts, or that an earlier daemon started.
	PodStart(uid types.UID) (start PodStart, ok bool)
}

// podStarts answers with the starts of all pods that have one.
func podStarts(pods PodLister, starts StartReader) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := []PodStart{}
		for _, p := range pods.Pods() {
			if start, ok := starts.PodStart(p.UID); ok {
				start.Namespace, start.Name, start.UID = p.Namespace, p.Name, p.UID
				list = append(list, start)
			}
		}
		writeJSON(w, list)
	}
}
