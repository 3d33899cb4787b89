package supervisor

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/objectwrite"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Errors of UpdateEphemeralContainers for a pod that takes none.
var (
	// ErrNoSuchPod: no source wants a pod with the UID.
	ErrNoSuchPod = objectwrite.Errorf(objectwrite.NotFound, "the pod does not exist any more")
	// ErrPodOfCluster: the API server of the cluster keeps them.
	ErrPodOfCluster = objectwrite.Errorf(objectwrite.Forbidden,
		"the pod belongs to the API server of a cluster; add ephemeral containers there")
	// ErrPodEnded: the pod has ended and is not going to run.
	ErrPodEnded = objectwrite.Errorf(objectwrite.Conflict,
		"the pod has ended, and an ephemeral container would never start")
)

// UpdateEphemeralContainers replaces the ephemeral containers of a static pod by those that change
// returns, and starts those that are new. They are part of the present run of the pod and not of its
// revision: they are never restarted, outlive the daemon, and are gone when the pod is restarted or
// replaced. change gets the pod with its present ones, which it must not modify; its error is
// returned as it is, and then nothing has changed. Otherwise they are recorded on the disk.
func (s *Supervisor) UpdateEphemeralContainers(uid types.UID,
	change func(pod *v1.Pod) ([]v1.EphemeralContainer, error)) error {
	err := s.cfg.Store.Ephemeral.Update(uid, func([]v1.EphemeralContainer) ([]v1.EphemeralContainer, error) {
		pod := s.desiredPod(uid)
		switch {
		case pod == nil:
			return nil, ErrNoSuchPod
		case !podinfo.PolicyOf(pod).Static:
			return nil, ErrPodOfCluster
		case podinfo.IsTerminal(pod.Status.Phase):
			return nil, fmt.Errorf("%w; its phase is %s", ErrPodEnded, pod.Status.Phase)
		}
		return change(pod)
	})
	if err != nil {
		return err
	}
	s.workers.Notify(uid)
	s.cfg.Store.Statuses.Touch()
	return nil
}

// desiredPod returns a pod that is not going to end, nil if there is none with the UID.
func (s *Supervisor) desiredPod(uid types.UID) *v1.Pod {
	for _, pod := range s.Pods() {
		if pod.UID == uid && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	return nil
}

// dropEphemeral drops the ephemeral containers of the previous run of the pod.
func (a *attempt) dropEphemeral() {
	if err := a.ephemeral.Remove(a.pod.UID); err != nil {
		a.log.Warn("Failed to remove the ephemeral containers of the previous run", "pod", podinfo.FullName(a.pod), "uid",
			a.pod.UID, "err", err)
		return
	}
	if a.job.Pod != nil {
		a.pod = a.job.Pod
	}
}
