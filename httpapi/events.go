package httpapi

import (
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// EventLister lists the stored events in the order of their last occurrence.
type EventLister interface {
	List() []v1.Event
}

// events responds with a v1.EventList, filtered by ?namespace= and ?pod=. A pod is named by
// its name or by the name in its manifest, and may no longer exist.
func events(l EventLister) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		namespace, pod := r.URL.Query().Get("namespace"), r.URL.Query().Get("pod")
		list := v1.EventList{Items: []v1.Event{}}
		list.Kind, list.APIVersion = "EventList", "v1"
		for _, e := range l.List() {
			if namespace != "" && e.Namespace != namespace || pod != "" && !isAbout(&e, pod) {
				continue
			}
			list.Items = append(list.Items, e)
		}
		writeJSON(w, list)
	}
}

// isAbout reports whether an event is about the pod. The name of a static pod is that in
// its manifest, "-" and the lower-case node name.
func isAbout(e *v1.Event, pod string) bool {
	o := e.InvolvedObject
	return o.Kind == "Pod" && (o.Name == pod || o.Name == pod+"-"+strings.ToLower(e.Source.Host))
}
