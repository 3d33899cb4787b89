package podinputs

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/credential"
	"github.com/podstead/podstead/supervisor/dns"
	"github.com/podstead/podstead/supervisor/status"
	"github.com/podstead/podstead/supervisor/userns"
	"github.com/podstead/podstead/supervisor/volume"
)

// Config configures a Resolver.
type Config struct {
	// Objects are read for pods of files, URLs and archives; nil has none.
	Objects Objects
	// Bound are read for pods that a cluster has bound to this node; nil has none.
	ClusterObjects ClusterObjects
	// RuntimeClasses maps names of runtime classes to the runtime's handlers, for
	// classes that no manifest declares.
	RuntimeClasses map[string]string
	// Allocatable is what the node has for pods; what is not in it counts as 0.
	Allocatable v1.ResourceList
	// HostIPs reports the node's addresses; nil reports none.
	HostIPs HostIPs
	// Uptime returns the time since the boot of the host, for AwaitedNetwork; nil waits for no
	// network.
	Uptime func() time.Duration
	DNS    dns.Settings
	// Volumes and Users make the volumes and reserve the ranges of user IDs.
	Volumes *volume.Volumes
	Users   *userns.Ranges
	// Credentials are the node's for registries; nil has none.
	Credentials Credentials
	// Events takes what the user should see of a pod. It must be set.
	Events Recorder
}

// Credentials are those with which any pod's images are pulled, after its own
// pull secrets. Implemented by credential.Node.
type Credentials interface {
	// Lookup may take its time. An error reports what could not be asked.
	Lookup(ctx context.Context, image credential.Image) ([]cri.Credential, error)
}

// Contributor adds to the inputs of containers. Implemented by noderesources.List.
type Contributor interface {
	// Contribute is called for a container that is about to be created. It may take its time.
	Contribute(ctx context.Context, pod *v1.Pod, c *v1.Container, in *cri.Inputs) error
}

// HostIPs reports the node's addresses.
type HostIPs interface {
	// Addresses returns them, the primary one first; empty while there is none.
	Addresses() []string
}

// Recorder takes events. Implemented by event.Recorder.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Resolver resolves what pods refer to. It is safe for concurrent use.
type Resolver struct {
	cfg Config

	mu       sync.Mutex
	resolved map[types.UID]*cached
}

// cached is a resolved pod with the revisions that it is valid for.
type cached struct {
	spec    *v1.Pod
	classes classRevisions
	value   *Resolved
}

// Resolved is a pod whose classes are resolved. It is shared and must not be
// written to.
type Resolved struct {
	// Pod is the pod with what its classes say filled in: priority, preemption
	// policy, overhead and node selector. What could not be resolved is as the
	// pod has it.
	Pod *v1.Pod
	// RuntimeHandler is the runtime's for the runtime class, empty for the default.
	RuntimeHandler string
	// Fault reports which class could not be resolved, nil if all could.
	Fault *status.Cause
}

// New returns a resolver. It touches nothing.
func New(cfg Config) *Resolver {
	if cfg.Objects == nil {
		cfg.Objects = NoObjects{}
	}
	return &Resolver{cfg: cfg, resolved: map[types.UID]*cached{}}
}

// Resolve returns the pod with its classes resolved, and the same pointer again
// as long as neither the pod nor a class that it refers to has changed. The pod
// itself is not changed; the caller must not write to it afterwards.
func (r *Resolver) Resolve(pod *v1.Pod) *Resolved {
	found := r.lookupClasses(pod)
	revisions := found.revisions()
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.resolved[pod.UID]; c != nil && c.spec == pod && c.classes == revisions {
		return c.value
	}
	value := r.resolve(pod, found)
	r.resolved[pod.UID] = &cached{spec: pod, classes: revisions, value: value}
	return value
}

// Retain drops the resolved values of all pods but those that keep reports.
func (r *Resolver) Retain(keep func(types.UID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid := range r.resolved {
		if !keep(uid) {
			delete(r.resolved, uid)
		}
	}
}

// hostIPs returns the node's addresses, the primary one first.
func (r *Resolver) hostIPs() []string {
	if r.cfg.HostIPs == nil {
		return nil
	}
	return r.cfg.HostIPs.Addresses()
}
