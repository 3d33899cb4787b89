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
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/dns"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/pleg"
	"github.com/podstead/podstead/supervisor/podephemeral"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podprobes"
	"github.com/podstead/podstead/supervisor/status"
	"github.com/podstead/podstead/supervisor/volume"
)

// Config configures a Supervisor.
type Config struct {
	Sources Sources
	Runtime Runtime
	Store   Store
	Paths   Paths
	// Events takes the events of pods and of the node; nil discards them.
	Events Recorder
	// Metrics counts the syncs, starts and disruptions of pods; nil counts nothing.
	Metrics Metrics
	// Trace begins the span of a sync, and returns its context and what ends it; nil traces
	// nothing.
	Trace func(ctx context.Context, name string, pod *v1.Pod) (context.Context, func(error))
	// Log takes the log messages; nil discards them.
	Log *slog.Logger
	// Garbage bounds the dead containers of pods that keep running.
	Garbage gc.ContainerPolicy
	// Node is what pods are admitted against before they start.
	Node    admit.Node
	Network Network
	// Allocatable is what the node has for pods; nil has no bounds, and a resource
	// that is not in it counts as 0.
	Allocatable v1.ResourceList
	// Resources returns what a pod needs of this node, in its order: the supervisor's own resources and
	// those of the node. It is required.
	Resources func(own *OwnResources) []noderesources.Resource
	// Credentials are the node's credentials for registries; nil has none.
	Credentials podinputs.Credentials
	// Mark returns the time since the boot, if that is known, as wallclock.Now
	// does. Without it, times that outlive the daemon are by the time of day.
	Mark func() (wallclock.Mark, bool)
}

// mark calls Mark; nil knows nothing.
func (c *Config) mark() (wallclock.Mark, bool) {
	if c.Mark == nil {
		return wallclock.Mark{}, false
	}
	return c.Mark()
}

// Metrics counts what happens to pods. Its methods must not block.
type Metrics interface {
	// PodSynced counts a sync of a pod, by operation: create (the first sync of a
	// run), sync, kill or cleanup.
	PodSynced(operation string, took time.Duration)
	// PodStarted counts a pod that became Running, with the time since its start
	// time.
	PodStarted(took time.Duration)
	// UserNamespacedPodStarted counts a sync that created the sandbox of a pod with a user namespace, with what
	// failed in it.
	UserNamespacedPodStarted(err error)
	// PodDisrupted counts a pod that the node ends for its own sake, with the
	// resource signal that caused it, empty if none did.
	PodDisrupted(reason, signal string)
}

// noMetrics counts nothing.
type noMetrics struct{}

func (noMetrics) PodSynced(string, time.Duration) {}
func (noMetrics) PodStarted(time.Duration)        {}
func (noMetrics) UserNamespacedPodStarted(error)  {}
func (noMetrics) PodDisrupted(string, string)     {}

// Network is the node's network as pods see it.
type Network struct {
	// HostIPs reports the node's addresses; nil reports none.
	HostIPs HostIPs
	DNS     dns.Settings
	// Uptime returns the time since the boot of the host. Shortly after it, pods wait for
	// the host's network; if nil, they never do.
	Uptime func() time.Duration
}

// HostIPs reports the node's addresses. Implemented by node/addresses, which the
// supervisor does not run.
type HostIPs interface {
	// Addresses returns them, the primary one first; empty while there is none.
	Addresses() []string
	// Changed receives after they changed.
	Changed() <-chan struct{}
}

// Sources is where the desired pods come from, and what depends on them.
type Sources struct {
	Pods PodConfig
	// Rollouts decide which revisions Pods delivers; nil delivers each at once.
	Rollouts Rollouts
	// Objects are the objects to which static pods refer; nil has none.
	Objects podinputs.Objects
	// Faulty reports whether a manifest has a fault now: a claim that is missing may be in it. nil
	// is never.
	Faulty func() bool
	// ClusterObjects are the objects to which API pods refer; nil has none.
	ClusterObjects podinputs.ClusterObjects
	// CSI publishes volumes of CSI drivers; nil has no drivers.
	CSI CSI
	// Ready is called each time a pod becomes ready, and once for a pod that
	// is ready when the daemon starts; may be nil. It must not call back.
	Ready func(uid types.UID)
	// Probes probes the containers; nil probes nothing.
	Probes podprobes.Prober
}

// CSI publishes volumes of CSI drivers. Implemented by csi.Manager.
type CSI interface {
	volume.CSI
	// Changed receives after a driver registered for which pods wait, and when a volume is to be published
	// again. TakeChanged returns these pods.
	Changed() <-chan struct{}
	TakeChanged() []types.UID
}

// PodConfig merges the sources. Implemented by manifest.PodConfig.
type PodConfig interface {
	// Updates delivers the changes in order. The channel is never closed.
	Updates() <-chan manifest.PodUpdate
	// Sources returns all sources that are going to deliver.
	Sources() []manifest.Source
	// FaultFor returns the fault of a newer revision of the pod, empty if none.
	FaultFor(uid types.UID) string
	// Subscribe returns a channel that receives after faults changed, until the
	// function is called.
	Subscribe() (<-chan struct{}, func())
}

// Rollouts decides which revision of a pod is in effect. None of its methods waits for
// anything. Implemented by rollout.Controller.
type Rollouts interface {
	// HeldFor returns why the newest revision of the pod's manifest is not in effect, nil
	// if it is. A subscription of PodConfig reports changes.
	HeldFor(uid types.UID) *status.Cause
	// Observe takes a status that was published.
	Observe(uid types.UID, st *v1.PodStatus)
	// RetryPreparations tries preparations of revisions again that failed.
	RetryPreparations()
	// Reconsider judges the revisions in effect again: the runtime went away or is back.
	Reconsider()
	// KeepsUntil returns until when a pod stays that its source no longer declares; zero if
	// it does not stay.
	KeepsUntil(uid types.UID) time.Time
}

// Runtime is how the runtime is observed and changed.
type Runtime struct {
	// Observer is the PLEG with its cache. The supervisor does not run it.
	Observer *pleg.PLEG
	// Syncer creates, starts and stops sandboxes and containers.
	Syncer *cri.Syncer
	// Backoff is the crash-loop back-off, which outlives the daemon in the record of
	// each pod.
	Backoff *cri.Backoff
	// Health is asked for the runtime's conditions, its name and its version.
	Health *cri.Client
	// Classes maps names of runtime classes to the runtime's handlers, for classes
	// that no manifest declares.
	Classes map[string]string
}

// Recorder records events. Implemented by event.Recorder.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Store is where statuses are published and records are kept.
type Store struct {
	Statuses Statuses
	Records  *status.Records
	// Ephemeral has the ephemeral containers of static pods; nil has none.
	Ephemeral *podephemeral.Store
	// Disk is where the state files of volumes and user namespaces are.
	Disk statefile.Disk
}

// Statuses are the published statuses. Implemented by status.Store.
type Statuses interface {
	Set(uid types.UID, st v1.PodStatus) bool
	Get(uid types.UID) (v1.PodStatus, bool)
	// Current is Get without a copy; nil if there is none.
	Current(uid types.UID) *v1.PodStatus
	Delete(uid types.UID)
	// Touch notifies the subscribers although no status changed.
	Touch()
	Subscribe() (<-chan struct{}, func())
}

// Paths are directories on the host. An empty path has its default.
type Paths struct {
	// Root is the daemon's directory, by default /var/lib/podstead. Root/pods has
	// the directories of pods, Root/volumes those of persistent volumes.
	Root string
	// PodLogs is /var/log/pods, ContainerLogs /var/log/containers.
	PodLogs, ContainerLogs string
}

// The default directories. The last two are those that log collectors expect.
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

// bindings is the file that records which claims are bound to PersistentVolumes.
func (p Paths) bindings() string { return filepath.Join(p.Root, "volume-bindings.json") }

// noRollouts holds no revision.
type noRollouts struct{}

func (noRollouts) HeldFor(types.UID) *status.Cause  { return nil }
func (noRollouts) Observe(types.UID, *v1.PodStatus) {}
func (noRollouts) RetryPreparations()               {}
func (noRollouts) Reconsider()                      {}
func (noRollouts) KeepsUntil(types.UID) time.Time   { return time.Time{} }

// noHostIPs reports no addresses.
type noHostIPs struct{}

func (noHostIPs) Addresses() []string      { return nil }
func (noHostIPs) Changed() <-chan struct{} { return nil }

// noEvents discards events.
type noEvents struct{}

func (noEvents) Event(*v1.Pod, string, string, string) {}
