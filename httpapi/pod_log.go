package httpapi

import (
	"fmt"
	"net/http"
)

// podLog answers pods/log of the Kubernetes API, which names the container in
// the query; one alone needs no name.
func podLog(src Sources, logs http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("container")
		if name == "" {
			pod, err := findPod(src, r.PathValue("namespace"), r.PathValue("pod"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			var names []string
			for i := range pod.Spec.Containers {
				names = append(names, pod.Spec.Containers[i].Name)
			}
			if len(names) != 1 {
				http.Error(w, fmt.Sprintf("a container name must be given for pod %s; %s", pod.Name, thereAre(names)), http.StatusBadRequest)
				return
			}
			name = names[0]
		}
		r.SetPathValue("container", name)
		logs(w, r)
	}
}
