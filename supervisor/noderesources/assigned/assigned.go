package assigned

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// Manager assigns CPUs and memory of the node to containers. Implemented by
// resourcemanagers.Managers.
type Manager interface {
	// Assign assigns them to the containers of a pod that is going to start. An error is a
	// Shortage if the pod has to wait for other pods; then it has none.
	Assign(pod *v1.Pod) error
	// Preview returns the error that Assign would return for a pod once some pods have ended and others
	// have what they request. It assigns nothing.
	Preview(pod *v1.Pod, ended []types.UID, first []*v1.Pod) error
	// Fixed reports whether the cpu or the memory of a pod's containers cannot change while they run.
	Fixed(pod *v1.Pod, resource v1.ResourceName) bool
	// Release releases those of a pod that has ended, and Retain those of all pods for which
	// keep returns false.
	Release(uid types.UID)
	Retain(keep func(uid types.UID) bool)
	// Changed receives after something was released.
	Changed() <-chan struct{}
	// Assigned is what containers are created with.
	cri.Assigned
}

// Shortage is an error about a resource that the node assigns and has not enough of.
type Shortage interface {
	error
	// Reason is shown in the status.
	Reason() string
}

// Resource is the CPUs and the memory that a node assigns.
type Resource struct{ manager Manager }

// New returns the CPUs and the memory that a manager assigns.
func New(m Manager) Resource { return Resource{m} }

// Name implements noderesources.Resource.
func (Resource) Name() string { return "exclusive CPUs and memory" }

// Preview implements noderesources.Resource.
func (r Resource) Preview(c *noderesources.Candidate) *noderesources.Refusal {
	return refusal(r.manager.Preview(c.Pod, c.Ended, c.First))
}

// Reserve implements noderesources.Reserver.
func (r Resource) Reserve(s *noderesources.Start) *noderesources.Refusal {
	return refusal(r.manager.Assign(s.Requests))
}

func refusal(err error) *noderesources.Refusal {
	if err == nil {
		return nil
	}
	var shortage Shortage
	if !errors.As(err, &shortage) {
		return &noderesources.Refusal{Result: podworkers.SyncResult{Err: err}}
	}
	return noderesources.Rejected(&status.Cause{Reason: shortage.Reason(), Message: shortage.Error()})
}

// Withdraw implements noderesources.Reserver: there is no queue.
func (Resource) Withdraw(types.UID) {}

// Prepare implements noderesources.Preparer: it contributes what the containers have. That is asked when they
// are created, not resolved with their other inputs: until then the CPUs that containers share may change, and a
// resize needs it too.
func (r Resource) Prepare(_ context.Context, s *noderesources.Start) *noderesources.Refusal {
	s.Assigned = r.manager
	return nil
}

// Release implements noderesources.Releaser.
func (r Resource) Release(_ context.Context, uid types.UID, _ bool) error {
	r.manager.Release(uid)
	return nil
}

// Retain implements noderesources.Retainer. It waits for no source: what is assigned is void after a boot,
// and a pod that runs is in the runtime.
func (r Resource) Retain(keep func(types.UID) bool, _ bool) { r.manager.Retain(keep) }

// Changed implements noderesources.Changer.
func (r Resource) Changed() <-chan struct{} { return r.manager.Changed() }

// TakeChanged implements noderesources.Changer. A pod that was refused is synced when a pod has ended.
func (Resource) TakeChanged() ([]types.UID, bool) { return nil, true }

// fixedResources say why a resource that the node assigns cannot be resized.
var fixedResources = []struct {
	name v1.ResourceName
	why  error
}{
	{v1.ResourceCPU, errors.New("the cpu of a Guaranteed pod cannot be resized with cpuManagerPolicy static, " +
		"because its containers may have exclusive CPUs; replace the pod")},
	{v1.ResourceMemory, errors.New("the memory of a Guaranteed pod cannot be resized with memoryManagerPolicy Static, " +
		"because its containers have memory of certain NUMA nodes; replace the pod")},
}

// CheckResize implements noderesources.Resizer.
func (r Resource) CheckResize(has, wants *v1.Pod) error {
	for _, fixed := range fixedResources {
		if r.manager.Fixed(wants, fixed.name) && !sameResource(has, wants, fixed.name) {
			return fixed.why
		}
	}
	return nil
}

// Resize implements noderesources.Resizer: what is assigned stays.
func (Resource) Resize(context.Context, *v1.Pod, *cri.PodStatus) error { return nil }

// sameResource reports whether the containers of two revisions of a pod have the same amounts of a
// resource.
func sameResource(a, b *v1.Pod, name v1.ResourceName) bool {
	amounts := func(pod *v1.Pod) (list []int64) {
		for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			list = append(list, request.MilliValue(), limit.MilliValue())
		}
		return list
	}
	return slices.Equal(amounts(a), amounts(b))
}
