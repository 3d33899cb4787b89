package claims

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/supervisor/noderesources"
)

// ReasonFailedPrepare is for a pod whose resource claims cannot be prepared, the kubelet's.
const ReasonFailedPrepare = "FailedPrepareDynamicResources"

// Manager prepares the devices of dynamic resource allocation for pods. Only Prepare and Unprepare may
// take their time. Implemented by dra.Manager.
type Manager interface {
	// Prepare prepares the claims of a pod. Unprepare gives back those of a pod of which nothing runs
	// any more, Retain those of all pods but those that keep reports.
	Prepare(ctx context.Context, pod *v1.Pod) error
	Unprepare(ctx context.Context, uid types.UID) error
	Retain(keep func(types.UID) bool)
	// CDIDevices returns the names of the CDI devices that a container has from claims. The error
	// reports that a claim is not prepared.
	CDIDevices(pod *v1.Pod, c *v1.Container) ([]string, error)
	// Changed receives after a driver registered. TakeChanged returns the pods whose claims could not
	// be prepared.
	Changed() <-chan struct{}
	TakeChanged() []types.UID
}

// Resource is the claims that a node can prepare.
type Resource struct {
	manager Manager
	// A pod with claims is one of a cluster, which is not prepared while another one runs.
	noderesources.NeverRefuses
}

// New returns the claims that a manager prepares.
func New(m Manager) Resource { return Resource{manager: m} }

// Name implements noderesources.Resource.
func (Resource) Name() string { return "resource claims" }

// Prepare implements noderesources.Preparer. An API server or a driver that is slow delays this pod only.
func (r Resource) Prepare(ctx context.Context, s *noderesources.Start) *noderesources.Refusal {
	if s.Running() || !device.HasClaims(s.Pod) {
		return nil
	}
	err := r.manager.Prepare(ctx, s.Pod)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return noderesources.Interrupted(err)
	}
	return noderesources.Failed(ReasonFailedPrepare, fmt.Errorf("failed to prepare dynamic resources: %w", err))
}

// Contribute implements noderesources.Contributor.
func (r Resource) Contribute(_ context.Context, pod *v1.Pod, c *v1.Container, in *cri.Inputs) error {
	names, err := r.manager.CDIDevices(pod, c)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(in.CDIDevices, name) {
			in.CDIDevices = append(slices.Clip(in.CDIDevices), name)
		}
	}
	return nil
}

// Unprepare implements noderesources.Unpreparer. Before that the pod has not ended: the cluster would
// allocate its devices to another pod.
func (r Resource) Unprepare(ctx context.Context, uid types.UID) error {
	if err := r.manager.Unprepare(ctx, uid); err != nil {
		return fmt.Errorf("failed to unprepare dynamic resources: %w", err)
	}
	return nil
}

// Retain implements noderesources.Retainer. A pod whose source has not delivered keeps its claims.
func (r Resource) Retain(keep func(types.UID) bool, complete bool) {
	if complete {
		r.manager.Retain(keep)
	}
}

// Changed implements noderesources.Changer.
func (r Resource) Changed() <-chan struct{} { return r.manager.Changed() }

// TakeChanged implements noderesources.Changer.
func (r Resource) TakeChanged() ([]types.UID, bool) { return r.manager.TakeChanged(), false }
