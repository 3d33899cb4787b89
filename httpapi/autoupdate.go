package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/httpapi/apistatus"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// AutoUpdate is what is known of the image updates of a pod.
type AutoUpdate struct {
	// Namespace and Name are those of the pod, with the node's suffix.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Policy is the value of the annotation: registry or local.
	Policy string `json:"policy"`
	// Checked is when the last check ended that did not fail, and Next when the next one
	// is due; zero if there was none, or while a rollout is in progress.
	Checked    time.Time              `json:"checked,omitzero"`
	Next       time.Time              `json:"next,omitzero"`
	Containers []ContainerImageUpdate `json:"containers"`
}

// ContainerImageUpdate is what the last check found about a container.
type ContainerImageUpdate struct {
	Container string `json:"container"`
	// Image is the manifest's.
	Image string `json:"image"`
	// State is Current, Available, Updating, RolledBack, Failed or Skipped.
	State string `json:"state"`
	// Running and Latest are the digests of the image that runs and of the newest one, or
	// the IDs of images without a digest.
	Running string `json:"running,omitempty"`
	Latest  string `json:"latest,omitempty"`
	// Message says why the state is none of the first two.
	Message string `json:"message,omitempty"`
}

// AutoUpdater updates the images of pods with the annotation podstead.io/auto-update.
type AutoUpdater interface {
	// AutoUpdates returns what is known of all such pods.
	AutoUpdates() []AutoUpdate
	// CheckUpdates checks some of them at once, by full names, or all without names. It
	// starts the rollout of newer images unless dryRun is set.
	CheckUpdates(ctx context.Context, names []string, dryRun bool) ([]AutoUpdate, error)
}

// autoUpdates answers with what is known.
func autoUpdates(u AutoUpdater) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeAutoUpdates(w, u.AutoUpdates()) }
}

func writeAutoUpdates(w http.ResponseWriter, list []AutoUpdate) {
	if list == nil {
		list = []AutoUpdate{}
	}
	writeJSON(w, list)
}

// checkUpdates checks pods, all of them without the parameter pod, which can be repeated.
func checkUpdates(src Sources) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		dryRun := false
		if text := q.Get("dryRun"); text != "" {
			var err error
			if dryRun, err = strconv.ParseBool(text); err != nil {
				apistatus.Error(w, r, http.StatusBadRequest, "dryRun=%q: must be true or false", text)
				return
			}
		}
		var names []string
		for _, text := range q["pod"] {
			namespace, name, ok := strings.Cut(text, "/")
			if !ok {
				apistatus.Error(w, r, http.StatusBadRequest, "pod=%q: must be NAMESPACE/NAME", text)
				return
			}
			pod, err := findPod(src, namespace, name)
			if err != nil {
				apistatus.Error(w, r, http.StatusNotFound, "%v", err)
				return
			}
			if err := updatable(pod); err != nil {
				apistatus.Error(w, r, http.StatusConflict, "%v", err)
				return
			}
			names = append(names, podinfo.FullName(pod))
		}
		if err := clearDeadlines(w); err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
			return
		}
		// The checks end when the client disconnects.
		list, err := src.AutoUpdates.CheckUpdates(r.Context(), names, dryRun)
		if err != nil {
			apistatus.Error(w, r, http.StatusServiceUnavailable, "%v", err)
			return
		}
		writeAutoUpdates(w, list)
	}
}

// updatable says why the images of a pod are not updated; nil if they are.
func updatable(pod *v1.Pod) error {
	switch {
	case podinfo.IsAPI(pod):
		return fmt.Errorf("pod %s belongs to an API server, where %s has no effect; update it there", podinfo.FullName(pod), podinfo.AnnotationAutoUpdate)
	case podinfo.AutoUpdate(pod) == "":
		return errors.New("pod " + podinfo.FullName(pod) + " has no annotation " + podinfo.AnnotationAutoUpdate + "; add it to the manifest, with the value " + podinfo.AutoUpdateRegistry + " or " + podinfo.AutoUpdateLocal)
	}
	return nil
}
