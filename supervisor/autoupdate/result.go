package autoupdate

import "time"

// The states of a Result.
const (
	// StateCurrent: the container runs the newest image.
	StateCurrent = "Current"
	// StateAvailable: there is a newer image, and it is not rolled out yet.
	StateAvailable = "Available"
	// StateUpdating: the rollout of a newer image has begun.
	StateUpdating = "Updating"
	// StateRolledBack: the newest image was rolled back, and is not tried again.
	StateRolledBack = "RolledBack"
	// StateFailed: the newest image could not be determined, or not be rolled out.
	StateFailed = "Failed"
	// StateSkipped: the image of this container is not updated.
	StateSkipped = "Skipped"
)

// Result is what a check found about one container.
type Result struct {
	Container string `json:"container"`
	// Image is the manifest's.
	Image string `json:"image"`
	State string `json:"state"`
	// Running is the digest of the image that the container runs, or its ID if it has
	// none; empty if none is known.
	Running string `json:"running,omitempty"`
	// Latest is the digest of the newest image, or its ID; empty if it is not known.
	Latest string `json:"latest,omitempty"`
	// Message says why the state is one of the last four.
	Message string `json:"message,omitempty"`
}

// PodStatus is what is known of one pod.
type PodStatus struct {
	// Namespace and Name are those of the pod, with the node's suffix.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Policy is registry or local.
	Policy string `json:"policy"`
	// Checked is when the last check ended; zero if there was none.
	Checked time.Time `json:"checked,omitzero"`
	// Next is when the next check is due; zero if a rollout is waited for.
	Next time.Time `json:"next,omitzero"`
	// Containers are the results of the last check.
	Containers []Result `json:"containers"`
}
