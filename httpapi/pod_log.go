package httpapi

import (
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
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

// onlyContainer is the name of a pod's one container.
func onlyContainer(pod *v1.Pod) (string, error) {
	var names []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	if len(names) != 1 {
		return "", fmt.Errorf("a container name must be given for pod %s; %s", pod.Name, listNames(names))
	}
	return names[0], nil
}
