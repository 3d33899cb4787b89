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

// Runtime reports what the kernel does not show. A runtime that does not
// implement a call returns nothing and no error.
type Runtime interface {
	// ContainerUsage and SandboxUsage return the usage of all containers and
	// sandboxes of this daemon, each in one call.
	ContainerUsage(ctx context.Context) ([]ContainerUsage, error)
	SandboxUsage(ctx context.Context) ([]SandboxUsage, error)
	// ImageUsage returns the file systems that images and the writable layers of
	// containers are on.
	ImageUsage(ctx context.Context) (images, containers []FilesystemUsage, err error)
}

// ContainerUsage is the usage of a container as the runtime measured it.
type ContainerUsage struct {
	ID string
	usage.Usage
	// Writable is the container's writable layer; nil if it was not measured.
	Writable *FilesystemUsage
}

// SandboxUsage is the usage of a sandbox with all its containers as the runtime
// measured it.
type SandboxUsage struct {
	ID string
	usage.Usage
	Interfaces []usage.Interface
}

// FilesystemUsage is the used part, in bytes and inodes, of the file system that
// is mounted at Mount.
type FilesystemUsage struct {
	At           time.Time
	Mount        string
	Used, Inodes uint64
}
