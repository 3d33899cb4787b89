package supervisor

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest/validation"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// What differs for a pod that a cluster has bound to this node. Whoever made it
// makes another one elsewhere, so that such a pod never waits for a node that does
// not take it, as at the kubelet.

// reasonUnsupported is the kubelet's, of a pod that asks for what this node
// cannot do.
const reasonUnsupported = "PodFeatureUnsupported"

// reject ends a cluster's pod that the node does not take: it is Failed. One
// that was taken before, and lost its sandbox, waits, as do all pods of manifests.
func (s *podSyncer) reject(j podworkers.SyncJob, r *runState, observed *cri.PodStatus, cause *status.Cause) podworkers.SyncResult {
	if !podinfo.IsAPI(j.Pod) || s.reservations.Holds(j.Pod.UID) {
		return s.hold(j, r, observed, cause)
	}
	s.cfg.Events.Event(j.Pod, v1.EventTypeWarning, cause.Reason, cause.Message)
	r.record.Rejected = len(observed.Containers) == 0
	s.publish(j, r, observed, statusOverrides{rejected: cause})
	return s.ended(j, r)
}

// unsupported is why a cluster's pod cannot run on this node as it asks to, nil
// if it can. It waits: to fail it would have whoever made it make the next one, at
// once and for ever. A manifest's pod was judged when it was read.
func (s *podSyncer) unsupported(pod *v1.Pod) *status.Cause {
	if !podinfo.IsAPI(pod) {
		return nil
	}
	errs := validation.UnsupportedBound(pod)
	if len(errs) == 0 {
		return nil
	}
	message := errs[0].Error()
	if more := len(errs) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return &status.Cause{Reason: reasonUnsupported, Message: message}
}

// unsupportedEphemeral are the ephemeral containers that ask for what this
// version cannot do: they came after the pod was judged, and do not end it.
func (s *podSyncer) unsupportedEphemeral(pod *v1.Pod) map[string]cri.Waiting {
	if len(pod.Spec.EphemeralContainers) == 0 {
		return nil
	}
	why := map[string]cri.Waiting{}
	for _, err := range validation.UnsupportedBound(pod) {
		for i := range pod.Spec.EphemeralContainers {
			if strings.HasPrefix(err.Field, fmt.Sprintf("spec.ephemeralContainers[%d].", i)) {
				why[pod.Spec.EphemeralContainers[i].Name] = cri.Waiting{Reason: reasonUnsupported, Message: err.Error()}
			}
		}
	}
	return why
}
