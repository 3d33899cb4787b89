package httpapi

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/httpapi/apistatus"
)

// VolumeManager manages the directories of claims.
type VolumeManager interface {
	// PersistentVolumes returns all volumes; measured adds their usage, which takes seconds if
	// they are large.
	PersistentVolumes(ctx context.Context, measured bool) ([]api.PersistentVolume, error)
	// RemovePersistentVolume deletes a volume with its content. The error is
	// fs.ErrNotExist if there is none, else it reports why the volume must stay.
	RemovePersistentVolume(namespace, name string) error
}

func volumes(m VolumeManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := m.PersistentVolumes(r.Context(), r.URL.Query().Get("usage") == "true")
		if err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
			return
		}
		if list == nil {
			list = []api.PersistentVolume{}
		}
		writeJSON(w, list)
	}
}

func removeVolume(m VolumeManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := m.RemovePersistentVolume(r.PathValue("namespace"), r.PathValue("name"))
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case errors.Is(err, fs.ErrNotExist):
			apistatus.Error(w, r, http.StatusNotFound, "%v", err)
		default:
			apistatus.Error(w, r, http.StatusConflict, "%v", err)
		}
	}
}
