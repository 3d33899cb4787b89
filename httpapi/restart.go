package httpapi

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// askedFor is why a pod that somebody restarts ends.
const restartReason = "its restart was asked for"

// PodRestarter runs a pod again.
type PodRestarter interface {
	// Restart ends the run of a pod and runs it again, at once if notBefore is
	// zero. An error says why that cannot be.
	Restart(uid types.UID, reason string, notBefore time.Time) error
}

// RestartedPod is the answer to a restart.
type RestartedPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// restartPod answers as soon as the pod has been told to end; that it runs
// again is seen in its status.
func restartPod(src Sources) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pod, err := findPod(src, r.PathValue("namespace"), r.PathValue("pod"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		if err := src.Restarter.Restart(pod.UID, restartReason, time.Time{}); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		writeJSON(w, RestartedPod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	}
}
