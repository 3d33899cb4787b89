package httpapi

import (
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// EventLister gives the events that are kept, in the order of their last
// occurrence.
type EventLister interface {
	List() []v1.Event
}

// events answers with a v1.EventList. ?namespace= and ?pod= choose; a pod is
// named in either way, and may be gone.
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

// concerns says whether the event is one of the pod: a static pod's name is
// that in its manifest, "-" and the node's in lower case.
func isAbout(e *v1.Event, pod string) bool {
	o := e.InvolvedObject
	return o.Kind == "Pod" && (o.Name == pod || o.Name == pod+"-"+strings.ToLower(e.Source.Host))
}
