package httpapi

import (
	"encoding/json"
	"io"
	"net/http"

	v1 "k8s.io/api/core/v1"
)

// PodLister lists the pods of this node with their status, sorted by namespace and name.
// The pods are shared and must not be modified.
type PodLister interface {
	Pods() []*v1.Pod
}

// pods responds with a v1.PodList, as the kubelet's /pods does. It encodes one pod after the
// other: a client that reads slowly holds one in memory, not megabytes.
func pods(l PodLister) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// Write errors are ignored: a client that has disconnected needs no response.
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`)
		for i, p := range l.Pods() {
			text, err := json.Marshal(p)
			if err != nil {
				panic(http.ErrAbortHandler) // strings and numbers only
			}
			if i > 0 {
				_, _ = io.WriteString(w, ",")
			}
			if _, err := w.Write(text); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, "]}")
	}
}
