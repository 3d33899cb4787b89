package api

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// RolloutState is the state of the rollout of a pod.
type RolloutState string

// The states of a rollout.
const (
	// RolloutStable: the revision of the manifest is in effect. It was Ready, or nothing judges it.
	RolloutStable RolloutState = "Stable"
	// RolloutPreparing: the candidate is prepared, while the revision in effect runs on.
	RolloutPreparing RolloutState = "Preparing"
	// RolloutProgressing: the revision in effect has to become Ready before the deadline.
	RolloutProgressing RolloutState = "Progressing"
	// RolloutRollingBack: the revision in effect failed, and the last good one is prepared.
	RolloutRollingBack RolloutState = "RollingBack"
	// RolloutRolledBack: the last good revision is in effect, because that of the manifest failed.
	RolloutRolledBack RolloutState = "RolledBack"
	// RolloutUndone: an earlier revision is in effect on request.
	RolloutUndone RolloutState = "Undone"
)

// ErrNoRevision is in the error of a request for a revision that the history of a pod does not have. The
// response is 404.
var ErrNoRevision = errors.New("no such revision")

// Rollout is which revision of a static pod is in effect, and the state of the others.
type Rollout struct {
	// Namespace and Name are those of the pod, with the node's suffix. UID is that of the
	// pod in effect.
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	UID       types.UID    `json:"uid,omitempty"`
	State     RolloutState `json:"state"`
	// Revision is the revision in effect, Candidate the one that is prepared or was
	// rejected, LastGood the last one that was Ready: short hashes, empty for none.
	Revision  string `json:"revision"`
	Candidate string `json:"candidate,omitempty"`
	LastGood  string `json:"lastGood,omitempty"`
	// Manifest is the hash of the newest manifest that was read, as in the annotation
	// kubernetes.io/config.hash of its pod.
	Manifest string `json:"manifest,omitempty"`
	// Reason and Message say what the rollout waits for or why it ended; empty for a
	// stable one.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Since is when the state began. Deadline is when the revision in effect is rolled back
	// unless it is Ready; zero for none, and while it has not begun to start.
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Images are those that a command or an image update has set, by container.
	Images map[string]string `json:"images,omitempty"`
}

// Ended reports whether nothing more happens without a change of the manifest or a request.
func (r *Rollout) Ended() bool {
	return r.State == RolloutStable || r.State == RolloutRolledBack || r.State == RolloutUndone
}

// CandidateState is how far the preparation of a revision is.
type CandidateState string

// The states of a candidate.
const (
	// CandidatePreparing: an attempt is in progress, such as the pull of its images, or is due.
	CandidatePreparing CandidateState = "Preparing"
	// CandidateWaiting: it is prepared again when what it waits for changes, such as a pod that it depends on.
	CandidateWaiting CandidateState = "Waiting"
	// CandidateFailed: the last attempt failed. Another one follows.
	CandidateFailed CandidateState = "Failed"
)

// RolloutRevision is one revision of a pod that was or is in effect, or is to be.
type RolloutRevision struct {
	// Revision is its short hash, Time when it came into effect; zero if it never was.
	Revision string    `json:"revision"`
	Time     time.Time `json:"time,omitzero"`
	// Ready: it was Ready, or has succeeded. InEffect: it is the one in effect.
	// InManifest: it is the manifest's.
	Ready      bool `json:"ready"`
	InEffect   bool `json:"inEffect"`
	InManifest bool `json:"inManifest"`
	// Rejected is why it was rolled back, empty if it was not.
	Rejected string `json:"rejected,omitempty"`
	// Candidate is how far it is prepared to replace the one in effect, empty if it is not prepared. Message
	// is what that waits for, or why it failed; empty if there is nothing to report.
	Candidate CandidateState `json:"candidate,omitempty"`
	Message   string         `json:"message,omitempty"`
	// Images are those of its containers, by name.
	Images map[string]string `json:"images,omitempty"`
}
