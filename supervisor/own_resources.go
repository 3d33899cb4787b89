package supervisor

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podstart"
	"github.com/podstead/podstead/supervisor/volume"
)

// OwnResources are those of the resources of a node that every supervisor has.
type OwnResources struct {
	// Reservations are the amounts and the host ports that pods request, Volumes their directories and
	// volumes, with those of CSI drivers, Probes and Logs the probes and the log files of containers.
	Reservations, Volumes, Probes, Logs noderesources.Resource
}

// volumeResource is the volumes in the list of what a pod needs of its node.
type volumeResource struct {
	inputs  *podinputs.Resolver
	volumes *volume.Volumes
	// csi may be nil.
	csi       CSI
	durations *podstart.Durations
}

// Name implements noderesources.Resource.
func (*volumeResource) Name() string { return "volumes" }

// Preview implements noderesources.Resource. What the host has is known at the start.
func (r *volumeResource) Preview(c *noderesources.Candidate) *noderesources.Refusal {
	if cause := r.inputs.CheckVolumes(c.Pod); cause != nil {
		return noderesources.Held(cause)
	}
	return nil
}

// Prepare implements noderesources.Preparer. Without a volume the kubelet restarts nothing in a running
// pod, and kills nothing that hangs; here only the containers wait that mount it.
func (r *volumeResource) Prepare(ctx context.Context, s *noderesources.Start) *noderesources.Refusal {
	began := time.Now()
	inputs, err := r.inputs.Prepare(ctx, s.Allocated, s.Resources)
	s.Inputs = inputs
	if len(s.Allocated.Spec.Volumes) > 0 {
		r.durations.Add(s.Pod.UID, stepVolumes, time.Since(began))
	}
	if err == nil || s.Running() && len(r.inputs.AwaitedObjects(s.Pod)) > 0 {
		// A daemon that starts gets the objects of a running pod a little later than the pod, and
		// is notified. The containers that mount the volume still wait for it.
		return nil
	}
	// The kubelet leaves it to the event to say what the pod waits for.
	return noderesources.Failed(podinputs.ReasonFailedMount, err)
}

// Release implements noderesources.Releaser.
func (r *volumeResource) Release(ctx context.Context, uid types.UID, _ bool) error {
	return r.volumes.Teardown(ctx, uid)
}

// Forget implements noderesources.Forgetter.
func (r *volumeResource) Forget(ctx context.Context, uid types.UID) error {
	return r.volumes.Remove(ctx, uid)
}

// Changed implements noderesources.Changer.
func (r *volumeResource) Changed() <-chan struct{} {
	if r.csi == nil {
		return nil
	}
	return r.csi.Changed()
}

// TakeChanged implements noderesources.Changer.
func (r *volumeResource) TakeChanged() ([]types.UID, bool) { return r.csi.TakeChanged(), false }

// logResource is the log files and the termination messages of containers in the list of what a pod needs
// of its node.
type logResource struct {
	files gc.Files
	noderesources.NeverRefuses
}

// Name implements noderesources.Resource.
func (*logResource) Name() string { return "logs" }

// Release implements noderesources.Releaser. The messages stay until the pod runs again, and count for
// its ephemeral storage.
func (r *logResource) Release(_ context.Context, uid types.UID, _ bool) error {
	r.files.CutMessages(uid)
	return nil
}

// Forget implements noderesources.Forgetter.
func (r *logResource) Forget(_ context.Context, uid types.UID) error {
	return r.files.RemovePodLogs(uid)
}
