package cri

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/cgroupvalues"
)

// Recorder records events about pods. eventType is Normal or Warning.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// SyncerConfig configures a Syncer.
type SyncerConfig struct {
	Runtime *Client
	Images  ImageConfig
	// Hooks runs lifecycle hooks; nil fails them all.
	Hooks Hooks
	// Events may be nil.
	Events Recorder
	// Log may be nil.
	Log *slog.Logger
	// Started is called after each attempt to create and start a container, with
	// the reason of its failure, empty if it succeeded. It may be nil.
	Started func(kind ContainerKind, failed string)
	// Backoff delays restarts; nil creates one with the default limit.
	Backoff *Backoff
	// Instance is the value of LabelInstance on created objects. It must be that
	// of Runtime.
	Instance string
	// LogRoot contains the pods' log directories and LogLinks the links to logs;
	// empty means DefaultLogRoot and DefaultLogLinks.
	LogRoot, LogLinks string
	// Security is what the node adds to the security contexts of pods.
	Security Security
	// HostMemory is the host's memory in bytes; 0 reads it from the kernel.
	HostMemory int64
	// Cgroup are the node's settings, from which cgroup values are computed.
	Cgroup cgroupvalues.Settings
}

// Syncer brings the runtime to the desired state of a pod. Sync runs once at a
// time for a pod; different pods may be synced concurrently. A Syncer remembers
// back-offs and the objects that it created last; all other state is read from
// the runtime.
type Syncer struct {
	gates
	sandboxes
	runtime      *Client
	images       *imageManager
	hooks        Hooks
	events       Recorder
	log          *slog.Logger
	started      func(kind ContainerKind, failed string)
	backoff      *Backoff
	config       config
	logLinks     string
	expectations expectations
	startBackoff startBackoff
	terminations terminations
	running      runningHooks
}

// gates are those of calls that start and of calls that stop or remove.
type gates struct{ starts, stops *gate }

// sandboxes is what fails in creating and stopping the sandboxes of each pod.
type sandboxes struct {
	reserved    reservedNames
	failedStops failedStops
}

// NewSyncer creates a Syncer.
func NewSyncer(c SyncerConfig) *Syncer {
	s := &Syncer{runtime: c.Runtime, hooks: c.Hooks, events: c.Events, log: c.Log, started: c.Started, backoff: c.Backoff,
		logLinks: c.LogLinks, gates: gates{newGate(), newGate()}}
	if s.hooks == nil {
		s.hooks = noHooks{}
	}
	if s.events == nil {
		s.events = noEvents{}
	}
	if s.started == nil {
		s.started = func(ContainerKind, string) {}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.backoff == nil {
		s.backoff = NewBackoff(0, "")
	}
	if s.logLinks == "" {
		s.logLinks = DefaultLogLinks
	}
	if c.LogRoot == "" {
		c.LogRoot = DefaultLogRoot
	}
	if c.HostMemory == 0 {
		c.HostMemory = hostMemory()
	}
	s.config = config{
		instance: c.Instance, logRoot: c.LogRoot, memory: c.HostMemory, masked: hostMaskedPaths("/sys"),
		security: c.Security, cgroup: c.Cgroup,
	}
	s.images = newImageManager(c.Images, s.events)
	return s
}

// hostMemory returns the host's memory in bytes, 0 if the kernel does not report
// it.
func hostMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}

type noEvents struct{}

func (noEvents) Event(*v1.Pod, string, string, string) {}

// Backoff returns the crash-loop back-off that the Syncer uses.
func (s *Syncer) Backoff() *Backoff { return s.backoff }

// Forget drops the state of a pod: its back-offs and expectations.
func (s *Syncer) Forget(uid types.UID) {
	s.backoff.Forget(uid)
	s.images.forgetPod(uid)
	s.expectations.forget(uid)
	s.startBackoff.forget(uid)
	s.terminations.forget(uid)
	s.reserved.forget(uid)
	s.failedStops.forget(uid)
}

// SyncRequest is the input of one Sync. It has many fields because Sync needs all that is
// known of one pod.
type SyncRequest struct {
	Pod *v1.Pod
	// Status was observed after the previous change of this pod was complete.
	Status *PodStatus
	// FailedProbes and Started are results of probes by container ID, as in
	// PlanInput.
	FailedProbes map[string]KillReason
	Started      map[string]bool
	// ChangedObjects is that of PlanInput.
	ChangedObjects map[string]string
	// Resizes are those to make now, out of the result of Resizes.
	Resizes []Resize
	// Restarting and Ran are those of PlanInput.
	Restarting map[string]string
	Ran        map[string]bool
	// Held are containers that must not be started yet, by name, with the reason.
	Held map[string]Waiting
	// ResolveInputs resolves what a container needs, just before it is created.
	ResolveInputs func(ctx context.Context, c *v1.Container, podIPs []string) (Inputs, error)
	// Credentials are used to pull images.
	Credentials PullCredentials
	// Assigned reports which CPUs and NUMA nodes the containers have; nil leaves them to the kernel.
	Assigned Assigned
	// Sandbox is for the config of the sandbox.
	Sandbox SandboxInputs
	// MaxRestartPeriod is the longest delay of the pod's crash-loop back-off; 0
	// means that of the Backoff.
	MaxRestartPeriod time.Duration
	// HostIP is the node's address for hooks of a pod on the host's network;
	// empty means 127.0.0.1.
	HostIP string
	// Queued is called if the start waits for those of other pods for more than a
	// second; may be nil.
	Queued func(Waiting)
	// SandboxReady is called with what is observed once a sandbox was created, before images are
	// pulled, which may take long; may be nil.
	SandboxReady func(*PodStatus)
	// PostStartDone is, by container name, the ID of the instance whose postStart
	// hook is known to have returned. The hook of any other running instance is
	// run.
	PostStartDone map[string]string
	// MinRestartCounts is, by container name, the least restart count of its next
	// instance: for a container that neither the runtime nor the logs remember.
	MinRestartCounts map[string]int
}

// SyncResult is the outcome of one Sync.
type SyncResult struct {
	// Acted reports that the runtime was asked to change something, whether or
	// not that succeeded: the next decision needs a newer status.
	Acted bool
	// NotKilled are the IDs of instances that were to be killed and were not: the runtime
	// said so.
	NotKilled []string
	// Waiting reports why containers could not be started, by container name; a
	// sandbox that could not be created is under "".
	Waiting map[string]Waiting
	// PostStartDone are the instances whose postStart hook returned in this Sync,
	// by container name.
	PostStartDone map[string]string
	// Resized are the resizes that were made. ResizeErrors reports why others
	// failed, by container name.
	Resized      []Resize
	ResizeErrors map[string]string
	// Steps are the steps of starts that were taken, including those that failed.
	Steps []Step
	// RetryAfter is when the first back-off ends, 0 if there is none. It may be
	// set together with Err.
	RetryAfter time.Duration
	// Err is what failed. A container that only waits for a back-off is not an
	// error.
	Err error
}

// Waiting is the reason, in the kubelet's words, and the message of a container
// that is not started.
type Waiting struct{ Reason, Message string }

// Reasons of failures that are not the image's.
const (
	reasonCrashLoop       = "CrashLoopBackOff"
	reasonQueued          = "ContainerCreating"
	reasonSandbox         = "CreatePodSandboxError"
	reasonKillSandbox     = "KillPodSandboxError"
	reasonContainerConfig = "CreateContainerConfigError"
	reasonCreate          = "CreateContainerError"
	reasonRun             = "RunContainerError"
)

// ReasonFailedKillPod is the kubelet's reason of the event for a pod that could not
// be stopped.
const ReasonFailedKillPod = "FailedKillPod"

// waitError reports why a container is not started. Without a cause it only waits.
type waitError struct {
	Waiting
	cause      error
	retryAfter time.Duration
}

func (e *waitError) Error() string { return e.Reason + ": " + e.Message }
func (e *waitError) Unwrap() error { return e.cause }

// detail returns the runtime's message, without the operation.
func detail(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return err.Error()
}
