package api

import "time"

// Image is an image in the runtime.
type Image struct {
	// Name is one of its references, or its ID if it has none.
	Name string   `json:"name"`
	ID   string   `json:"id"`
	Tags []string `json:"tags,omitempty"`
	// Size is the size in bytes.
	Size uint64 `json:"size"`
	// State says why the image is kept: foreign, pinned, sandbox, used or wanted; unused
	// if it can be removed.
	State string `json:"state"`
	// Pulled is when podstead pulled it, LastUsed when a container used it last.
	Pulled   time.Time `json:"pulled,omitzero"`
	LastUsed time.Time `json:"lastUsed,omitzero"`
	// Error says why it could not be removed.
	Error string `json:"error,omitempty"`
}

// Pull is a request to pull an image, in the parameters image, namespace and secret.
type Pull struct {
	// Image is the reference.
	Image string
	// Secrets are the names of image pull secrets in Namespace, which is default if it is empty.
	Namespace string
	Secrets   []string
}

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

// InvalidImageError is an error that a retry of the same request cannot fix.
type InvalidImageError struct{ Err error }

// Error returns the message of Err.
func (e *InvalidImageError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *InvalidImageError) Unwrap() error { return e.Err }
