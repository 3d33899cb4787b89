package httpapi

import (
	"net/http"

	v1 "k8s.io/api/core/v1"
)

// PodLister lists the pods of this node with their status, sorted by namespace and name.
// The pods are shared and must not be modified.
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
