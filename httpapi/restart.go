package httpapi

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/apistatus"
)

// restartReason is the reason for the termination of a pod that a user restarts.
const restartReason = "restart requested"

// PodRestarter restarts pods.
type PodRestarter interface {
	// Restart terminates a pod and starts it again, not before the given time, or as soon
	// as possible if it is zero. The error reports why the pod cannot restart.
	Restart(uid types.UID, reason string, notBefore time.Time) error
}

// restartPod responds when the termination of the pod has started. The pod's status shows
// when it runs again.
func restartPod(src Sources) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pod, err := findPod(src, r.PathValue("namespace"), r.PathValue("pod"))
		if err != nil {
			apistatus.Error(w, r, http.StatusNotFound, "%v", err)
			return
		}
		if err := src.Restarter.Restart(pod.UID, restartReason, time.Time{}); err != nil {
			apistatus.Error(w, r, http.StatusConflict, "%v", err)
			return
		}
		writeJSON(w, api.RestartedPod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	}
}
