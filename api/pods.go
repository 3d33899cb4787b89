package api

import "k8s.io/apimachinery/pkg/types"

// PodStart is how long a pod took to start.
type PodStart struct {
	// Namespace and Name are those of the pod, with the node's suffix.
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Seconds are from the acceptance of the pod until all its containers were started.
	Seconds float64 `json:"seconds"`
	// Steps are the known parts of it, in the order in which they began.
	Steps []StartStep `json:"steps"`
}

// StartStep is a part of a start: volumes, sandbox, image, create or start.
type StartStep struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// RestartedPod is the response to a restart request.
type RestartedPod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}
