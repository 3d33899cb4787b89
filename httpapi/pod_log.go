package httpapi

import (
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/httpapi/apistatus"
)

// podLog serves pods/log of the Kubernetes API. The container is named in the query; a pod
// with one container needs no name.
func podLog(src Sources, logs http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("container")
		if name == "" {
			pod, err := findPod(src, r.PathValue("namespace"), r.PathValue("pod"))
			if err != nil {
				apistatus.Error(w, r, http.StatusNotFound, "%v", err)
				return
			}
			only, err := onlyContainer(pod)
			if err != nil {
				writeContainerError(w, r, http.StatusBadRequest, metav1.CauseTypeFieldValueRequired, err)
				return
			}
			name = only
		}
		r.SetPathValue("container", name)
		logs(w, r)
	}
}

// writeContainerError serves a request for a container that the pod does not have, or that
// it does not select. The details name the pod; the cause is the container, so that clients do
// not take the pod for missing.
func writeContainerError(w http.ResponseWriter, r *http.Request, code int, kind metav1.CauseType, err error) {
	if !apistatus.IsAPI(r.URL.Path) {
		http.Error(w, err.Error(), code)
		return
	}
	apistatus.Write(w, r, apistatus.WithCause(apistatus.New(code, "%v", err), kind, "container"))
}

// onlyContainer returns the name of the container of a pod with one container.
func onlyContainer(pod *v1.Pod) (string, error) {
	var names []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	if len(names) != 1 {
		return "", fmt.Errorf("container: must be set, because pod %q has several containers; %s", pod.Name,
			listNames("containers", names))
	}
	return names[0], nil
}
