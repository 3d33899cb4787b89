package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/apistatus"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// AutoUpdater updates the images of pods with the annotation podstead.io/auto-update.
type AutoUpdater interface {
	// AutoUpdates returns what is known of all such pods.
	AutoUpdates() []api.AutoUpdate
	// CheckUpdates checks some of them at once, by full names, or all without names. It
	// starts the rollout of newer images unless dryRun is set.
	CheckUpdates(ctx context.Context, names []string, dryRun bool) ([]api.AutoUpdate, error)
}

// autoUpdates responds with what is known.
func autoUpdates(u AutoUpdater) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeAutoUpdates(w, u.AutoUpdates()) }
}

func writeAutoUpdates(w http.ResponseWriter, list []api.AutoUpdate) {
	if list == nil {
		list = []api.AutoUpdate{}
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

// updatable reports why the images of a pod are not updated; nil if they are.
func updatable(pod *v1.Pod) error {
	switch {
	case podinfo.IsAPI(pod):
		return fmt.Errorf("pod %s belongs to an API server, where %s has no effect; update it there", podinfo.FullName(pod),
			podinfo.AnnotationAutoUpdate)
	case podinfo.AutoUpdate(pod) == "":
		return errors.New("pod " + podinfo.FullName(pod) + " has no annotation " + podinfo.AnnotationAutoUpdate +
			"; add it to the manifest, with the value " + podinfo.AutoUpdateRegistry + " or " + podinfo.AutoUpdateLocal)
	}
	return nil
}
