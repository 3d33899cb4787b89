package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi/apistatus"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Rollout is which revision of a static pod is in effect, and the state of the others.
type Rollout struct {
	// Namespace and Name are those of the pod, with the node's suffix. UID is that of the
	// pod in effect.
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	// State is Stable, Preparing, Progressing, RollingBack, RolledBack or Undone.
	State string `json:"state"`
	// Revision is the revision in effect, Candidate the one that is prepared or was
	// rejected, LastGood the last one that was Ready: short hashes, empty for none.
	Revision  string `json:"revision"`
	Candidate string `json:"candidate,omitempty"`
	LastGood  string `json:"lastGood,omitempty"`
	// Manifest is the hash of the newest manifest that was read, as in the annotation
	// kubernetes.io/config.hash of its pod.
	Manifest string `json:"manifest,omitempty"`
	// Reason and Message say what the rollout waits for or why it ended; empty for a
	// stable one.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when the state began, Deadline when the revision in effect is rolled back
	// unless it is Ready; zero for none.
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Images are those that a command or an image update has set, by container.
	Images map[string]string `json:"images,omitempty"`
}

// RolloutRevision is one revision of a pod that was or is in effect.
type RolloutRevision struct {
	// Revision is its short hash, Time when it came into effect.
	Revision string    `json:"revision"`
	Time     time.Time `json:"time,omitzero"`
	// Ready: it was Ready, or has succeeded. InEffect: it is the one in effect.
	// InManifest: it is the manifest's.
	Ready      bool `json:"ready"`
	InEffect   bool `json:"inEffect"`
	InManifest bool `json:"inManifest"`
	// Rejected is why it was rolled back, empty if it was not.
	Rejected string `json:"rejected,omitempty"`
	// Images are those of its containers, by name.
	Images map[string]string `json:"images,omitempty"`
}

// ErrNoRevision is in the error of Undo for a revision that the history does not have.
var ErrNoRevision = errors.New("podstead rollout history lists the revisions")

// RolloutManager manages the revisions of static pods. Full names are namespace/name with
// the node's suffix.
type RolloutManager interface {
	// Rollouts returns the rollouts of all static pods, sorted by pod.
	Rollouts() []Rollout
	// History returns the revisions of a pod that were in effect, the newest first.
	History(fullName string) ([]RolloutRevision, error)
	// Undo puts an earlier revision into effect, the previous one that was Ready if
	// revision is empty. Retry puts that of the manifest into effect again. Both return
	// at once.
	Undo(fullName, revision string) error
	Retry(fullName string) error
}

// rollouts answers with the rollouts of all pods.
func rollouts(m RolloutManager) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := m.Rollouts()
		if list == nil {
			list = []Rollout{}
		}
		writeJSON(w, list)
	}
}

// rolloutHistory answers with the revisions of a pod.
func rolloutHistory(src Sources) http.HandlerFunc {
	return onRollout(src, func(w http.ResponseWriter, _ *http.Request, pod *v1.Pod) error {
		list, err := src.Rollouts.History(podinfo.FullName(pod))
		if err != nil {
			return err
		}
		if list == nil {
			list = []RolloutRevision{}
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
func rolloutOf(m RolloutManager, pod *v1.Pod) Rollout {
	for _, r := range m.Rollouts() {
		if r.Namespace == pod.Namespace && r.Name == pod.Name {
			return r
		}
	}
	return Rollout{Namespace: pod.Namespace, Name: pod.Name}
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
			err := fmt.Errorf("pod %s belongs to an API server, which has its revisions; use kubectl rollout for its controller", podinfo.FullName(pod))
			apistatus.Error(w, r, http.StatusConflict, "%v", err)
			return
		}
		switch err := handle(w, r, pod); {
		case errors.Is(err, ErrNoRevision):
			apistatus.Error(w, r, http.StatusNotFound, "%v", err)
		case err != nil:
			apistatus.Error(w, r, http.StatusConflict, "%v", err)
		}
	}
}
