package supervisor

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons of pods that do not get their devices, the kubelet's.
const (
	// reasonOutOf begins the reason of a pod that waits for devices; their resource ends it.
	reasonOutOf = "OutOf"
	// reasonUnexpectedAdmission is for a pod of an API server, and for a device plugin that fails.
	reasonUnexpectedAdmission = "UnexpectedAdmissionError"
)

// Devices allocates the node's devices to pods. Only Allocate and Container may take their time.
// Implemented by devices.Manager.
type Devices interface {
	// Check returns why a pod of which nothing runs cannot have its devices now, nil if it can.
	// The pod waits for them until it has them, or Withdraw or Release is called.
	Check(pod *v1.Pod) *device.Unavailable
	// Preview is Check for a pod that is not wanted yet and replaces another one.
	Preview(pod *v1.Pod, replaced types.UID) *device.Unavailable
	Withdraw(uid types.UID)
	// Allocate allocates the devices; the error is a *device.Unavailable or names the plugin
	// that failed.
	Allocate(ctx context.Context, pod *v1.Pod) error
	// Release takes back the devices of a pod of which nothing runs any more, Retain those of
	// all pods but those that keep reports.
	Release(uid types.UID)
	Retain(keep func(types.UID) bool)
	// Status returns the health of a pod's devices by container.
	Status(uid types.UID) map[string][]v1.ResourceStatus
	// Changed receives after devices became available, or changed their health. TakeChanged
	// returns the pods that wait for devices and those that have such a device.
	Changed() <-chan struct{}
	TakeChanged() []types.UID

	podinputs.Devices
}

// devicesBlock returns why the pod cannot have its devices now, nil if it can.
func (a *syncAttempt) devicesBlock() *startBlock {
	if !device.InUse(a.pod) {
		return nil
	}
	u := a.devices.Check(a.pod)
	if u == nil {
		return nil
	}
	return a.blockFor(u)
}

// blockFor blocks a pod until its devices are available. Its status has a reason as for other
// resources; a pod of an API server is rejected with that of the kubelet.
func (a *syncAttempt) blockFor(u *device.Unavailable) *startBlock {
	reason := reasonOutOf + string(u.Resource)
	if a.policy.Rejects {
		reason = reasonUnexpectedAdmission
	}
	return rejectedFor(&status.Cause{Reason: reason, Message: u.Error()})
}

// 6. allocateDevices allocates the devices of a pod that is about to get a sandbox. A plugin that
// is slow delays this pod only.
func (a *syncAttempt) allocateDevices(ctx context.Context) *podworkers.SyncResult {
	if a.observed.HasReadySandbox() || !device.InUse(a.pod) {
		return nil
	}
	err := a.devices.Allocate(ctx, a.pod)
	if err == nil || ctx.Err() != nil {
		if err != nil {
			return &podworkers.SyncResult{Err: err}
		}
		return nil
	}
	var u *device.Unavailable
	if errors.As(err, &u) {
		a.releaseForDevices()
		return a.applyBlock(a.blockFor(u))
	}
	if a.policy.Rejects {
		a.releaseForDevices()
		return a.applyBlock(rejectedFor(&status.Cause{Reason: reasonUnexpectedAdmission, Message: "Allocate failed due to " + err.Error() + ", which is unexpected"}))
	}
	cause := status.Cause{Reason: reasonUnexpectedAdmission, Message: err.Error()}
	a.events.Event(a.pod, v1.EventTypeWarning, cause.Reason, cause.Message)
	return a.failedStart(cause.Reason, cause.Message, fmt.Errorf("failed to start pod: %w", err))
}

// releaseForDevices gives back what was reserved for a pod that has to wait for its devices.
func (a *syncAttempt) releaseForDevices() {
	a.admission.assigned.Release(a.pod.UID)
	a.reservations.Release(a.pod.UID, false)
}

// handleDevices notifies the pods that wait for devices, and those whose devices changed.
func (s *Supervisor) handleDevices() {
	for _, uid := range s.cfg.Devices.TakeChanged() {
		s.workers.Notify(uid)
	}
	s.cfg.Sources.Rollouts.RetryPreparations()
}

// noDevices has no devices, and leaves the requests for them to others.
type noDevices struct{}

func (noDevices) Check(*v1.Pod) *device.Unavailable              { return nil }
func (noDevices) Preview(*v1.Pod, types.UID) *device.Unavailable { return nil }
func (noDevices) Withdraw(types.UID)                             {}
func (noDevices) Allocate(context.Context, *v1.Pod) error        { return nil }
func (noDevices) Release(types.UID)                              {}
func (noDevices) Retain(func(types.UID) bool)                    {}
func (noDevices) Status(types.UID) map[string][]v1.ResourceStatus {
	return nil
}
func (noDevices) Changed() <-chan struct{} { return nil }
func (noDevices) TakeChanged() []types.UID { return nil }
func (noDevices) Container(context.Context, *v1.Pod, *v1.Container) (device.Assignment, error) {
	return device.Assignment{}, nil
}
