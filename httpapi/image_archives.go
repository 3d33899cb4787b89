package httpapi

import "net/http"

// ImageArchives is the state of the directory of image archives.
type ImageArchives struct {
	Directory string `json:"directory"`
	// Fault is set while the directory is not read.
	Fault    string         `json:"fault,omitempty"`
	Archives []ImageArchive `json:"archives"`
	// Ignored are the names of files that are no archives.
	Ignored []string `json:"ignored,omitempty"`
}

// ImageArchive is the state of one archive.
type ImageArchive struct {
	File string `json:"file"`
	// State is Waiting, Incomplete, Loading, Loaded or Failed.
	State string `json:"state"`
	// Message says why it failed, or what it waits for.
	Message string `json:"message,omitempty"`
	// Images are the full names of its images, as far as they are known.
	Images []string `json:"images,omitempty"`
	// Superseded has, by name, the archives from which those of the images are loaded that
	// are not loaded from this one.
	Superseded map[string]string `json:"superseded,omitempty"`
}

func imageArchives(m ImageManager) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, m.ImageArchives()) }
}
