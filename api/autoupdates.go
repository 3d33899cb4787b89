package api

import "time"

// The states of a ContainerImageUpdate.
const (
	// UpdateCurrent: the container runs the newest image.
	UpdateCurrent = "Current"
	// UpdateAvailable: there is a newer image, and it is not rolled out yet.
	UpdateAvailable = "Available"
	// UpdateUpdating: the rollout of a newer image has begun.
	UpdateUpdating = "Updating"
	// UpdateRolledBack: the newest image was rolled back, and is not tried again.
	UpdateRolledBack = "RolledBack"
	// UpdateFailed: the newest image could not be determined, or not be rolled out.
	UpdateFailed = "Failed"
	// UpdateSkipped: the image of this container is not updated.
	UpdateSkipped = "Skipped"
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
	Checked time.Time `json:"checked,omitzero"`
	Next    time.Time `json:"next,omitzero"`
	// Containers are the results of the last check, empty before the first one.
	Containers []ContainerImageUpdate `json:"containers"`
}

// ContainerImageUpdate is what the last check found about a container. The daemon also stores it in
// this form.
type ContainerImageUpdate struct {
	Container string `json:"container"`
	// Image is the manifest's.
	Image string `json:"image"`
	State string `json:"state"`
	// Running and Latest are the digests of the image that runs and of the newest one, or
	// the IDs of images without a digest; empty if they are not known.
	Running string `json:"running,omitempty"`
	Latest  string `json:"latest,omitempty"`
	// Message says why the state is none of the first two.
	Message string `json:"message,omitempty"`
}
