package httpapi

import (
	"errors"
	"io/fs"
	"net/http"
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
	return func(w http.ResponseWriter, _ *http.Request) {
		list, err := m.PersistentVolumes()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
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
			http.Error(w, err.Error(), http.StatusNotFound)
		default:
			http.Error(w, err.Error(), http.StatusConflict)
		}
	}
}
