package evict

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ReasonEvicted is the kubelet's reason of evicted pods.
const ReasonEvicted = "Evicted"

// reasonThresholdMet is the kubelet's reason of the node event.
const reasonThresholdMet = "EvictionThresholdMet"

// Eviction is the eviction of one pod.
type Eviction struct {
	UID     types.UID
	Message string
	// Signal is the reason in the kubelet's metrics.
	Signal string
	// Condition must clear before the pod restarts; empty is none.
	Condition v1.NodeConditionType
	// Disk reports that what the pod left on disk, including its logs, is removed
	// before it restarts.
	Disk bool
	// GracePeriod is in seconds; nil is the pod's own.
	GracePeriod *int64
}

// Pods lists and evicts pods. Implemented over the supervisor.
type Pods interface {
	// List returns all pods with their statuses and priorities.
	List() []*v1.Pod
	// Evict starts the termination of a pod; WaitEnded waits until it has
	// terminated.
	Evict(order Eviction) error
	WaitEnded(ctx context.Context, uid types.UID) error
	// Changed notifies after pods or statuses changed, until the function is
	// called.
	Changed() (<-chan struct{}, func())
	// Recheck is called after conditions changed: held and evicted pods may start.
	Recheck()
}

// UsageReader measures pods. Both methods may be slow.
type UsageReader interface {
	// Running returns the memory and process usage of the running pods, as of now.
	Running(ctx context.Context) (map[types.UID]Usage, error)
	// Disks returns the disk usage of the pods, at most maxAge old unless that is
	// expensive.
	Disks(ctx context.Context, maxAge time.Duration) (map[types.UID]Disk, error)
}

// Reclaimer frees unused disk space. Implemented over gc.
type Reclaimer interface {
	// Containers removes dead containers and returns how many.
	Containers(ctx context.Context) (int, error)
	// Images removes unused images and returns their bytes.
	Images(ctx context.Context) (uint64, error)
}

// NodeResources measures what is left on the node. Implemented by Host.
type NodeResources interface {
	Memory(levels *Levels)
	Disk(levels *Levels)
	PIDs(levels *Levels)
	// SeparateImageFS reports whether images have a file system of their own.
	SeparateImageFS() bool
}

// Alarm notifies about memory pressure. Implemented by Host over Notifier.
type Alarm interface {
	// C receives when memory may be short.
	C() <-chan struct{}
	// Arm requests a notification once margin more bytes are used, by signal. It
	// returns an error if the kernel cannot notify.
	Arm(s Signal, margin int64) error
}

// Recorder records events; pod is nil for events of the node.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}
