package httpapi

import (
	"errors"
	"io/fs"
	"net/http"
)

// PersistentVolume is the folder of a PersistentVolumeClaim.
type PersistentVolume struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Path is where it lies on the host.
	Path string `json:"path"`
	// Requested is the size that its claim asks for, empty if no manifest
	// declares the claim any more.
	Requested string `json:"requested,omitempty"`
	// Pods are namespace/name of those that use it, or UIDs of those that are
	// gone but for their folders.
	Pods []string `json:"pods,omitempty"`
}

// VolumeKeeper keeps the folders of claims.
type VolumeManager interface {
	PersistentVolumes() ([]PersistentVolume, error)
	// RemovePersistentVolume deletes one with all that is in it. An error that
	// is fs.ErrNotExist says that there is none; another one, why it must stay.
	RemovePersistentVolume(namespace, name string) error
}

func volumes(k VolumeManager) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list, err := k.PersistentVolumes()
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

func removeVolume(k VolumeManager) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := k.RemovePersistentVolume(r.PathValue("namespace"), r.PathValue("name"))
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
