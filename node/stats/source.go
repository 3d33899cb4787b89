package stats

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
)

// ObservedPod is a pod as it was last observed in the container runtime.
type ObservedPod struct {
	UID             types.UID
	Name, Namespace string
	// SandboxID is the newest sandbox of the pod, empty if it has none.
	SandboxID        string
	SandboxReady     bool
	SandboxCreatedAt time.Time
	// CgroupParent is the pod's own cgroup, as the sandbox was created with it;
	// empty if the runtime chose the cgroup.
	CgroupParent string
	Containers   []ObservedContainer
}

// ObservedContainer is a container of an ObservedPod.
type ObservedContainer struct {
	Name, ID  string
	CreatedAt time.Time
	Running   bool
}

// Runtime reports what the kernel does not show. Implemented by cri.Client.
type Runtime interface {
	// ContainerUsage and SandboxUsage return the usage of all containers and
	// sandboxes of this daemon, each in one call. The error of a runtime that has no such call is
	// errors.ErrUnsupported.
	ContainerUsage(ctx context.Context) ([]usage.RuntimeContainer, error)
	SandboxUsage(ctx context.Context) ([]usage.RuntimeSandbox, error)
	// ImageUsage returns the file systems that images and the writable layers of
	// containers are on.
	ImageUsage(ctx context.Context) (images, containers []usage.RuntimeFilesystem, err error)
}
