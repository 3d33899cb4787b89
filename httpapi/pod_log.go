package httpapi

import (
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
)

// podLog serves pods/log of the Kubernetes API. The container is named in the query; a pod
// with one container needs no name.
func podLog(src Sources, logs http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("container")
		if name == "" {
			pod, err := findPod(src, r.PathValue("namespace"), r.PathValue("pod"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			only, err := onlyContainer(pod)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			name = only
		}
		r.SetPathValue("container", name)
		logs(w, r)
	}
}

// onlyContainer returns the name of the container of a pod with one container.
func onlyContainer(pod *v1.Pod) (string, error) {
	var names []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	if len(names) != 1 {
		return "", fmt.Errorf("container: must be set, because pod %q has several containers; %s", pod.Name, listNames("containers", names))
	}
	return names[0], nil
}
