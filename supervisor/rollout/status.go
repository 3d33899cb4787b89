package rollout

import "time"

// State is the state of one pod's rollout.
type State string

// The states of a rollout.
const (
	// Stable: the revision of the manifest is in effect, and was Ready or is not
	// judged.
	Stable State = "Stable"
	// Preparing: the images and objects of another revision are prepared, while the
	// one in effect runs on.
	Preparing State = "Preparing"
	// Progressing: the revision in effect has to become Ready before the deadline.
	Progressing State = "Progressing"
	// RollingBack: the last good revision is prepared and started in place of one that
	// failed.
	RollingBack State = "RollingBack"
	// RolledBack: an earlier revision is in effect, since that of the manifest failed.
	RolledBack State = "RolledBack"
	// Undone: an earlier revision is in effect on request.
	Undone State = "Undone"
)

// Status is the rollout of one pod.
type Status struct {
	// Namespace and Name are those of the pod, with the node's suffix.
	Namespace, Name string
	State           State
	// Revision is the revision in effect, Candidate the one that is prepared or was
	// rejected, LastGood the last one that was Ready; short hashes, empty for none.
	Revision, Candidate, LastGood string
	// Reason and Message say what the rollout waits for or why it ended; empty for a
	// stable one.
	Reason, Message string
	// Since is when the state began.
	Since time.Time
	// Deadline is when the revision in effect is rolled back unless it is Ready; zero
	// for none.
	Deadline time.Time
	// Images are those of SetImages that are in effect or are prepared, by container.
	Images map[string]string
}

// Revision is one revision of a pod that was or is in effect.
type Revision struct {
	// Revision is its short hash.
	Revision string
	// Time is when it came into effect.
	Time time.Time
	// Ready reports that it was Ready, or Succeeded.
	Ready bool
	// InEffect reports that it is the one in effect, InManifest that it is the
	// manifest's.
	InEffect, InManifest bool
	// Rejected is why it was rolled back, empty if it was not.
	Rejected string
	// Images are those of its containers, by name.
	Images map[string]string
}
