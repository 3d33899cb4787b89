package httpapi

import (
	"encoding/json"
	"net/http"

	v1 "k8s.io/api/core/v1"
)

// PodLister gives the pods of this node with their status, sorted by
// namespace and name. They are shared and must not be written to.
type PodLister interface {
	Pods() []*v1.Pod
}

// pods answers with a v1.PodList, as the kubelet's /pods does.
func pods(l PodLister) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := v1.PodList{Items: []v1.Pod{}}
		list.Kind, list.APIVersion = "PodList", "v1"
		for _, p := range l.Pods() {
			list.Items = append(list.Items, *p)
		}
		writeJSON(w, list)
	}
}

// writeJSON sends v. It is encoded before the first byte is sent, so that a
// value that cannot be encoded becomes a 500, not half an answer.
func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot encode the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a reader that went away needs no answer
}
