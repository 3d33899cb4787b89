package devices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons of pods that do not get their devices, the kubelet's.
const (
	// reasonOutOf begins the reason of a pod that waits for devices; their resource ends it.
	reasonOutOf = "OutOf"
	// ReasonUnexpectedAdmission is for a pod of an API server, and for a device plugin that fails.
	ReasonUnexpectedAdmission = "UnexpectedAdmissionError"
)

// Manager allocates the node's devices to pods. Only Allocate and Container may take their time.
// Implemented by devices.Manager of the node.
type Manager interface {
	// Check returns why a pod of which nothing runs cannot have its devices now, nil if it can.
	// The pod waits for them until it has them, or Withdraw or Release is called.
	Check(pod *v1.Pod) *device.Unavailable
	// Preview is Check for a pod that is not desired yet and replaces another one.
	Preview(pod *v1.Pod, replaced types.UID) *device.Unavailable
	Withdraw(uid types.UID)
	// Allocate allocates the devices; the error is a *device.Unavailable or names the plugin
	// that failed.
	Allocate(ctx context.Context, pod *v1.Pod) error
	// Container returns what its devices add to a container that is about to be created.
	Container(ctx context.Context, pod *v1.Pod, c *v1.Container) (device.Assignment, error)
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
}

// Resource is the devices of a node.
type Resource struct{ manager Manager }

// New returns the devices that a manager allocates.
func New(m Manager) Resource { return Resource{m} }

// Name implements noderesources.Resource.
func (Resource) Name() string { return "devices" }

// Preview implements noderesources.Resource.
func (r Resource) Preview(c *noderesources.Candidate) *noderesources.Refusal {
	return refusal(c.Pod, r.manager.Preview(c.Pod, c.Replaced))
}

// Queue implements noderesources.Queuer.
func (r Resource) Queue(s *noderesources.Start) *noderesources.Refusal {
	if !device.InUse(s.Pod) {
		return nil
	}
	return refusal(s.Pod, r.manager.Check(s.Pod))
}

// Withdraw implements noderesources.Queuer.
func (r Resource) Withdraw(uid types.UID) { r.manager.Withdraw(uid) }

// refusal holds a pod until its devices are available. Its status has a reason as for other
// resources; a pod of an API server is rejected with that of the kubelet.
func refusal(pod *v1.Pod, u *device.Unavailable) *noderesources.Refusal {
	if u == nil {
		return nil
	}
	reason := reasonOutOf + string(u.Resource)
	if podinfo.PolicyOf(pod).Rejects {
		reason = ReasonUnexpectedAdmission
	}
	return noderesources.Rejected(&status.Cause{Reason: reason, Message: u.Error()})
}

// Prepare implements noderesources.Preparer. A plugin that is slow delays this pod only.
func (r Resource) Prepare(ctx context.Context, s *noderesources.Start) *noderesources.Refusal {
	if s.Running() || !device.InUse(s.Pod) {
		return nil
	}
	err := r.manager.Allocate(ctx, s.Pod)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return noderesources.Interrupted(err)
	}
	var u *device.Unavailable
	switch {
	case errors.As(err, &u):
		refused := refusal(s.Pod, u)
		refused.GivesBack = true
		return refused
	case podinfo.PolicyOf(s.Pod).Rejects:
		refused := noderesources.Rejected(&status.Cause{
			Reason: ReasonUnexpectedAdmission, Message: "Allocate failed due to " + err.Error() + ", which is unexpected",
		})
		refused.GivesBack = true
		return refused
	}
	refused := noderesources.Failed(ReasonUnexpectedAdmission, err)
	refused.Result.Err = fmt.Errorf("failed to start pod: %w", err)
	return refused
}

// Contribute implements noderesources.Contributor. As at the kubelet the container's own variables take
// precedence over those of devices.
func (r Resource) Contribute(ctx context.Context, pod *v1.Pod, c *v1.Container, in *cri.Inputs) error {
	assigned, err := r.manager.Container(ctx, pod, c)
	if err != nil {
		return err
	}
	own := map[string]bool{}
	for _, e := range in.Env {
		own[e.Name] = true
	}
	var env []cri.EnvVar
	for _, name := range slices.Sorted(maps.Keys(assigned.Env)) {
		if !own[name] {
			env = append(env, cri.EnvVar{Name: name, Value: assigned.Env[name]})
		}
	}
	in.Env = append(env, in.Env...)
	mounts := make([]cri.Mount, 0, len(assigned.Mounts)+len(in.Mounts))
	for _, m := range assigned.Mounts {
		mounts = append(mounts, cri.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, ReadOnly: m.ReadOnly})
	}
	in.Mounts = append(mounts, in.Mounts...)
	in.Devices, in.CDIDevices, in.Annotations = append(in.Devices, assigned.Nodes...), assigned.CDI, assigned.Annotations
	return nil
}

// Release implements noderesources.Releaser.
func (r Resource) Release(_ context.Context, uid types.UID, _ bool) error {
	r.manager.Release(uid)
	return nil
}

// Retain implements noderesources.Retainer. A pod whose source has not delivered keeps its devices: it may
// start with them.
func (r Resource) Retain(keep func(types.UID) bool, complete bool) {
	if complete {
		r.manager.Retain(keep)
	}
}

// Status implements noderesources.Reporter.
func (r Resource) Status(uid types.UID) map[string][]v1.ResourceStatus { return r.manager.Status(uid) }

// Changed implements noderesources.Changer.
func (r Resource) Changed() <-chan struct{} { return r.manager.Changed() }

// TakeChanged implements noderesources.Changer.
func (r Resource) TakeChanged() ([]types.UID, bool) { return r.manager.TakeChanged(), true }
