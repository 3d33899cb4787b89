package evict

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReasonEvicted is that of pods that were ended, the kubelet's.
const ReasonEvicted = "Evicted"

// reasonThresholdMet is that of the node's event, the kubelet's.
const reasonThresholdMet = "EvictionThresholdMet"

// Order is the end of a pod for the node's sake.
type Eviction struct {
	UID     types.UID
	Message string
	// Signal is what was short, as the kubelet's metrics call it.
	Signal string
	// Condition has to pass before the pod runs again; empty is none.
	Condition v1.NodeConditionType
	// Disk: what it left on disk, its logs too, is to go before it runs again.
	Disk bool
	// Grace is how many seconds it has to end; nil is as many as it asks for.
	GracePeriod *int64
}

// Pods are those that run, and how they are ended. Implemented over the
// supervisor.
type Pods interface {
	// List are all pods with their statuses and priorities.
	List() []*v1.Pod
	// Evict begins to end a pod; WaitEnded waits until it has.
	Evict(order Eviction) error
	WaitEnded(ctx context.Context, uid types.UID) error
	// Changed wakes after pods or statuses changed, until the function is
	// called.
	Changed() (<-chan struct{}, func())
	// Recheck is called after conditions changed: pods that wait may run.
	Recheck()
}

// Meter tells what pods use. Both may take their time.
type UsageReader interface {
	// Running are the memory and the processes of those that run, now.
	Running(ctx context.Context) (map[types.UID]Usage, error)
	// Disks are what they hold on disk, no older than maxAge if that is not
	// dear.
	Disks(ctx context.Context, maxAge time.Duration) (map[types.UID]Disk, error)
}

// Reclaimer frees what nobody needs. Implemented over gc.
type Reclaimer interface {
	// Containers removes dead containers; it reports how many.
	Containers(ctx context.Context) (int, error)
	// Images removes images that nothing keeps; it reports their bytes.
	Images(ctx context.Context) (uint64, error)
}

// Machine is what is left of the node. Implemented by Host.
type NodeResources interface {
	Memory(levels *Levels)
	Disk(levels *Levels)
	PIDs(levels *Levels)
	// Separate reports whether images have a file system of their own.
	SeparateImageFS() bool
}

// Alarm tells when memory gets short. Implemented over Notifier.
type Alarm interface {
	// C wakes when it may be.
	C() <-chan struct{}
	// Arm asks for that once so many bytes more are used, by signal. It is an
	// error if nobody will tell.
	Arm(s Signal, margin int64) error
}

// Recorder takes events; pod is nil for those of the node.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}
