package httpapi

import (
	"net/http"
	"time"
)

// ManifestSource is what one source of manifests delivered last.
type ManifestSource struct {
	// Source is file or http.
	Source string `json:"source"`
	// Location is the folder, file or URL that is read.
	Location string `json:"location"`
	// Delivered says that the source was read since the daemon started;
	// until then its pods come from the checkpoint.
	Delivered bool `json:"delivered"`
	// Time is that of the last full read; zero before the first.
	Time time.Time `json:"time,omitzero"`
	// Fault is set while the source as a whole cannot be read, Warning if what
	// is odd about it holds nothing back.
	Fault   string         `json:"fault,omitempty"`
	Warning string         `json:"warning,omitempty"`
	Units   []ManifestUnit `json:"units"`
}

// ManifestUnit is one file or URL body.
type ManifestUnit struct {
	Name string `json:"name"`
	// Digest is the sha256 of the accepted bytes, empty if none were or if a
	// Secret is among them.
	Digest string `json:"digest,omitempty"`
	// Pods are namespace/name of the accepted revision.
	Pods []string `json:"pods,omitempty"`
	// Restored says that an older revision is in force, since the newest
	// bytes are faulty.
	Restored bool `json:"restored,omitempty"`
	// Faults hold the newest bytes back, Warnings do not.
	Faults   []string `json:"faults,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// ManifestLister gives the view of every source.
type ManifestLister interface {
	Manifests() []ManifestSource
}

func manifests(l ManifestLister) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := l.Manifests()
		if list == nil {
			list = []ManifestSource{}
		}
		writeJSON(w, list)
	}
}
