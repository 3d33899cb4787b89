package supervisor

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/dns"
	"github.com/podstead/podstead/supervisor/pleg"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/status"
)

// Config is what a Supervisor is made of.
type Config struct {
	Sources Sources
	Runtime Runtime
	Store   Store
	Paths   Paths
	// Events takes what a person should see of a pod; nil takes nothing.
	Events Recorder
	// Metrics counts what happens to pods; nil counts nothing.
	Metrics Metrics
	// Log is where the supervisor logs; nil logs nothing.
	Log *slog.Logger
	// Observed are added as OnObserved does.
	Observed []func()
	// Garbage bounds the dead containers of pods that go on.
	Garbage gc.ContainerPolicy
	// Node is what pods are held against before they start.
	Node    admit.Node
	Network Network
	// Allocatable is what the node has for pods; what is not in it counts as 0.
	Allocatable v1.ResourceList
	// Gates are added as AddGate does.
	Gates []Gate
	// RestartPolicies are set as SetRestartPolicy does, by reason.
	RestartPolicies map[string]RestartPolicy
	// Credentials are the node's for registries; nil has none.
	Credentials podinputs.Credentials
	// Mark tells the time since the boot, if that is known. Without it what
	// outlives the daemon goes by the time of day. It is wallclock.Now.
	Mark func() (wallclock.Mark, bool)
}

// mark is Mark.
func (c *Config) mark() (wallclock.Mark, bool) {
	if c.Mark == nil {
		return wallclock.Mark{}, false
	}
	return c.Mark()
}

// Metrics counts what happens to pods. Its methods must not block.
type Metrics interface {
	// PodWorked is told of a script that was run for a pod: create, which is
	// the first sync of a run, sync, kill or cleanup.
	PodSynced(operation string, took time.Duration)
	// PodStarted is told of a pod that has come to run, and how long after it
	// was taken up.
	PodStarted(took time.Duration)
	// PodDisplaced is told of a pod that ends for the node's sake, and of the
	// signal that was short.
	PodDisrupted(reason, signal string)
}

// noMetrics counts nothing.
type noMetrics struct{}

func (noMetrics) PodSynced(string, time.Duration) {}
func (noMetrics) PodStarted(time.Duration)        {}
func (noMetrics) PodDisrupted(string, string)     {}

// Network is what pods learn of the node's network.
type Network struct {
	// HostIPs are the node's addresses; nil reports none.
	HostIPs HostIPs
	DNS     dns.Settings
}

// HostIPs tells the node's addresses. Implemented by hostip.Source, which the
// supervisor does not run.
type HostIPs interface {
	// Addresses has the primary one first; it is empty while there is none.
	Addresses() []string
	// Changed wakes after they changed.
	Changed() <-chan struct{}
}

// Sources is where the wanted pods come from, and who hears of their fate.
type Sources struct {
	Pods PodConfig
	// Objects are what pods of files and URLs refer to; nil has none.
	Objects podinputs.Objects
	// Bound is what the pods refer to that a cluster has bound to this node; nil
	// has none.
	ClusterObjects podinputs.ClusterObjects
	// Ready is called each time a pod becomes ready, and once for a pod that
	// is ready when the daemon starts; may be nil. It must not call back.
	Ready func(uid types.UID)
	// Probes probes the containers; nil probes nothing.
	Probes Probes
}

// PodConfig merges the sources. Implemented by manifest.PodConfig.
type PodConfig interface {
	// Updates are the changes in order. The channel is never closed.
	Updates() <-chan manifest.PodUpdate
	// Sources are all that are going to deliver.
	Sources() []manifest.Source
	// FaultFor is the fault of a newer revision of the pod, empty if none.
	FaultFor(uid types.UID) string
	// Subscribe wakes after faults changed, until the function is called.
	Subscribe() (<-chan struct{}, func())
}

// Probes probes the containers of pods. None of its methods waits for
// anything. Implemented by probe.Prober, which the supervisor does not run.
type Probes interface {
	// Changed wakes after a result changed; Take drains whose.
	Changed() <-chan struct{}
	TakeChanged() []types.UID
	// Results are those of a pod, by container ID. A container without an
	// entry has not failed, and is ready and started once it runs.
	Results(uid types.UID) probe.Results
	// Set says what of a pod runs.
	UpdatePod(pod probe.Pod)
	// Stop ends what may kill a container, Remove all probes of a pod.
	StopLivenessAndStartup(uid types.UID)
	RemovePod(uid types.UID)
}

// Runtime is how the runtime is observed and changed.
type Runtime struct {
	Observer Observer
	Syncer   Syncer
	Backoff  Backoff
	Health   RuntimeHealth
	// Classes are the runtime's handlers by the names of runtime classes, for
	// those that no manifest declares.
	Classes map[string]string
	// Cgroups keeps those of the pods; nil leaves them to the runtime.
	Cgroups Cgroups
}

// Cgroups keeps the cgroups of pods. Implemented by cgroup.Cgroups.
type Cgroups interface {
	// Ensure makes a pod's cgroup, or brings it up to the pod, and returns it
	// as a new sandbox takes it: empty if there are none here. parent is what
	// the present sandbox was made in, empty if there is none.
	Ensure(ctx context.Context, pod *v1.Pod, parent string) (string, error)
	// Fits is an error for a pod that requests more than the node has.
	Fits(pod *v1.Pod) error
	// Destroy ends what is left in it and removes it.
	Destroy(ctx context.Context, uid types.UID, parent string) error
	// Pods are those that have one.
	Pods() []types.UID
}

// Observer is the PLEG with its cache. Implemented by pleg.PLEG. The
// supervisor does not run it.
type Observer interface {
	Changed() <-chan struct{}
	Take() []pleg.Event
	// Relist asks for a look at one pod at once and returns immediately.
	Relist(uid types.UID)
	Healthy() error
	// NewerThan waits for a status that shows all that happened before t.
	NewerThan(ctx context.Context, uid types.UID, t time.Time) (*cri.PodStatus, error)
	// Observed is the last view of all pods. Its time is zero before the first.
	Observed() *cri.Observed
}

// Syncer brings pods to what is wanted. Implemented by cri.Syncer.
type Syncer interface {
	Sync(ctx context.Context, req cri.SyncRequest) cri.SyncResult
	Kill(ctx context.Context, req cri.KillRequest) error
	// CancelEndedHooks takes a newer observation of a pod whose Sync or Kill is in
	// progress.
	CancelEndedHooks(status *cri.PodStatus)
	// Remove removes the given dead containers and sandboxes.
	Remove(ctx context.Context, pod *cri.Pod) error
	// Forget drops what is remembered of a pod.
	Forget(uid types.UID)
}

// Backoff is the crash-loop back-off, which outlives the daemon in the record
// of each pod. Implemented by cri.Backoff.
type Backoff interface {
	Steps(uid types.UID) map[string]cri.BackoffStep
	Restore(uid types.UID, steps map[string]cri.BackoffStep)
}

// RuntimeHealth asks the runtime for its conditions and its name. Implemented by cri.Client.
type RuntimeHealth interface {
	RuntimeStatus(ctx context.Context) (cri.RuntimeStatus, error)
	// Version tells the runtime's name, which statuses put before container IDs.
	Version(ctx context.Context) (cri.Version, error)
}

// Recorder takes events. Implemented by event.Recorder.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Store is where statuses are published and records are kept.
type Store struct {
	Statuses Statuses
	Records  Records
}

// Statuses are the published ones. Implemented by status.Store.
type Statuses interface {
	Set(uid types.UID, st v1.PodStatus) bool
	Get(uid types.UID) (v1.PodStatus, bool)
	// Current is the same as Get without a copy; nil if there is none.
	Current(uid types.UID) *v1.PodStatus
	Delete(uid types.UID)
	// Touch wakes the subscribers although no status changed.
	Touch()
	Subscribe() (<-chan struct{}, func())
}

// Records are the durable ones. Implemented by status.Records.
type Records interface {
	Load(uid types.UID) status.Record
	Save(uid types.UID, rec status.Record) (bool, error)
	Delete(uid types.UID) error
	UIDs() ([]types.UID, error)
}

// Paths are the folders on the host. An empty one has its default.
type Paths struct {
	// Root is the daemon's folder, by default /var/lib/podstead; the pods' own
	// are under Root/pods, those of persistent volumes under Root/volumes.
	Root string
	// PodLogs is /var/log/pods, ContainerLogs /var/log/containers.
	PodLogs, ContainerLogs string
}

// The default folders; the last two are those that log shippers know.
const (
	DefaultRoot          = "/var/lib/podstead"
	DefaultPodLogs       = "/var/log/pods"
	DefaultContainerLogs = "/var/log/containers"
)

func (p Paths) withDefaults() Paths {
	if p.Root == "" {
		p.Root = DefaultRoot
	}
	if p.PodLogs == "" {
		p.PodLogs = DefaultPodLogs
	}
	if p.ContainerLogs == "" {
		p.ContainerLogs = DefaultContainerLogs
	}
	return p
}

func (p Paths) pods() string   { return filepath.Join(p.Root, "pods") }
func (p Paths) claims() string { return filepath.Join(p.Root, "volumes") }

// noHostIPs are those of a node that reports none.
type noHostIPs struct{}

func (noHostIPs) Addresses() []string      { return nil }
func (noHostIPs) Changed() <-chan struct{} { return nil }

// noCgroups leaves all to the runtime.
type noCgroups struct{}

func (noCgroups) Ensure(context.Context, *v1.Pod, string) (string, error) { return "", nil }
func (noCgroups) Fits(*v1.Pod) error                                      { return nil }
func (noCgroups) Destroy(context.Context, types.UID, string) error        { return nil }
func (noCgroups) Pods() []types.UID                                       { return nil }

// noEvents takes events when nobody wants them.
type noEvents struct{}

func (noEvents) Event(*v1.Pod, string, string, string) {}
