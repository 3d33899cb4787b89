package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/apistatus"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// RolloutManager manages the revisions of static pods. Full names are namespace/name with
// the node's suffix.
type RolloutManager interface {
	// Rollouts returns the rollouts of all static pods, sorted by pod.
	Rollouts() []api.Rollout
	// History returns the revision of a pod that is prepared, if any, and those that were in effect, the
	// newest first.
	History(fullName string) ([]api.RolloutRevision, error)
	// Undo puts an earlier revision into effect, the previous one that was Ready if
	// revision is empty; a revision that is prepared is dropped. Retry puts that of the manifest into effect
	// again. Both return
	// at once. The error of Undo is api.ErrNoRevision for a revision that the history does
	// not have.
	Undo(fullName, revision string) error
	Retry(fullName string) error
}

// rollouts responds with the rollouts of all pods.
func rollouts(m RolloutManager) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := m.Rollouts()
		if list == nil {
			list = []api.Rollout{}
		}
		writeJSON(w, list)
	}
}

// rolloutHistory responds with the revisions of a pod.
func rolloutHistory(src Sources) http.HandlerFunc {
	return onRollout(src, func(w http.ResponseWriter, _ *http.Request, pod *v1.Pod) error {
		list, err := src.Rollouts.History(podinfo.FullName(pod))
		if err != nil {
			return err
		}
		if list == nil {
			list = []api.RolloutRevision{}
		}
		writeJSON(w, list)
		return nil
	})
}

// undoRollout and retryRollout answer when the request is recorded. The rollout shows the
// result.
func undoRollout(src Sources) http.HandlerFunc {
	return onRollout(src, func(w http.ResponseWriter, r *http.Request, pod *v1.Pod) error {
		if err := src.Rollouts.Undo(podinfo.FullName(pod), r.URL.Query().Get("revision")); err != nil {
			return err
		}
		writeJSON(w, rolloutOf(src.Rollouts, pod))
		return nil
	})
}

func retryRollout(src Sources) http.HandlerFunc {
	return onRollout(src, func(w http.ResponseWriter, _ *http.Request, pod *v1.Pod) error {
		if err := src.Rollouts.Retry(podinfo.FullName(pod)); err != nil {
			return err
		}
		writeJSON(w, rolloutOf(src.Rollouts, pod))
		return nil
	})
}

// rolloutOf returns the rollout of a pod.
func rolloutOf(m RolloutManager, pod *v1.Pod) api.Rollout {
	for _, r := range m.Rollouts() {
		if r.Namespace == pod.Namespace && r.Name == pod.Name {
			return r
		}
	}
	return api.Rollout{Namespace: pod.Namespace, Name: pod.Name}
}

// onRollout handles a request about the rollout of one pod.
func onRollout(src Sources, handle func(http.ResponseWriter, *http.Request, *v1.Pod) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pod, err := findPod(src, r.PathValue("namespace"), r.PathValue("pod"))
		if err != nil {
			apistatus.Error(w, r, http.StatusNotFound, "%v", err)
			return
		}
		if podinfo.IsAPI(pod) {
			err := fmt.Errorf("pod %s belongs to an API server, which has its revisions; use kubectl rollout for its controller",
				podinfo.FullName(pod))
			apistatus.Error(w, r, http.StatusConflict, "%v", err)
			return
		}
		switch err := handle(w, r, pod); {
		case errors.Is(err, api.ErrNoRevision):
			apistatus.Error(w, r, http.StatusNotFound, "%v; podstead rollout history lists the revisions", err)
		case err != nil:
			apistatus.Error(w, r, http.StatusConflict, "%v", err)
		}
	}
}
