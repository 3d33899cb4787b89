package httpapi

import (
	"errors"
	"io/fs"
	"net/http"

	"github.com/podstead/podstead/httpapi/apistatus"
)

// PersistentVolume is the directory of a PersistentVolumeClaim.
type PersistentVolume struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Path is the directory on the host.
	Path string `json:"path"`
	// Requested is the size that the claim requests, empty if no manifest declares the
	// claim any more.
	Requested string `json:"requested,omitempty"`
	// Pods are the pods that use it: namespace/name, or the UID of a pod of which only the
	// directory is left.
	Pods []string `json:"pods,omitempty"`
}

// VolumeManager manages the directories of claims.
type VolumeManager interface {
	PersistentVolumes() ([]PersistentVolume, error)
	// RemovePersistentVolume deletes a volume with its content. The error is
	// fs.ErrNotExist if there is none, else it says why the volume must stay.
	RemovePersistentVolume(namespace, name string) error
}

func volumes(m VolumeManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := m.PersistentVolumes()
		if err != nil {
			apistatus.Error(w, r, http.StatusInternalServerError, "%v", err)
			return
		}
		if list == nil {
			list = []PersistentVolume{}
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
