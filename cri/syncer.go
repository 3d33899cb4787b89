package cri

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/cgroupvalues"
)

// Recorder takes events about pods. eventType is Normal or Warning.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// SyncerConfig is what a Syncer is made of.
type SyncerConfig struct {
	Runtime *Client
	Images  ImageRuntime
	// Hooks performs lifecycle hooks; nil fails them all.
	Hooks Hooks
	// Events may be nil.
	Events Recorder
	// Log may be nil.
	Log *slog.Logger
	// Started is told of each attempt to make and start a container, and with
	// which reason it failed, empty if it did not; nil tells nobody.
	Started func(kind ContainerKind, failed string)
	// Backoff spaces out restarts; nil makes one with the default limit.
	Backoff *Backoff
	// Instance is the value of LabelInstance on what is made. It must be the
	// one by which the Runtime knows its own.
	Instance string
	// ParallelPulls is how many image pulls start at once; 0 stands for
	// DefaultParallelPulls.
	ParallelPulls int
	// LogRoot holds the pods' log folders and LogLinks the links to logs;
	// empty stands for DefaultLogRoot and DefaultLogLinks.
	LogRoot, LogLinks string
	// Security is what the node adds to the security contexts of pods.
	Security Security
	// HostMemory is the host's in bytes; 0 asks the kernel.
	HostMemory int64
	// Cgroup are the machine's settings, by which limits are set.
	Cgroup cgroupvalues.Settings
}

// Syncer brings the runtime to what is wanted of a pod, one call of Sync at a
// time for a pod; different pods may be synced at the same time. It remembers
// back-offs and what it made last; all else is read from the runtime.
type Syncer struct {
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

// NewSyncer makes a Syncer.
func NewSyncer(c SyncerConfig) *Syncer {
	s := &Syncer{runtime: c.Runtime, hooks: c.Hooks, events: c.Events, log: c.Log, started: c.Started, backoff: c.Backoff, logLinks: c.LogLinks}
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
		s.backoff = NewBackoff(0)
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
	s.images = newImageManager(c.Images, s.events, cmp.Or(c.ParallelPulls, DefaultParallelPulls))
	return s
}

// hostMemory is the host's memory in bytes, 0 if the kernel does not tell.
func hostMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}

type noEvents struct{}

func (noEvents) Event(*v1.Pod, string, string, string) {}

// Backoff is the crash-loop back-off that the Syncer keeps to.
func (s *Syncer) Backoff() *Backoff { return s.backoff }

// Forget drops what is remembered of a pod: its back-offs and what was made.
func (s *Syncer) Forget(uid types.UID) {
	s.backoff.Forget(uid)
	s.images.forgetPod(uid)
	s.expectations.forget(uid)
	s.startBackoff.forget(uid)
	s.terminations.forget(uid)
}

// SyncRequest is one look at a pod.
type SyncRequest struct {
	Pod *v1.Pod
	// Status was observed after the last act on this pod had ended.
	Status *PodStatus
	// Failed and Started tell of probes, by container ID, as in PlanInput.
	FailedProbes map[string]KillReason
	Started      map[string]bool
	// Changed is that of PlanInput.
	ChangedObjects map[string]string
	// Resizes are those to be made now, of what Resizes found.
	Resizes []Resize
	// Withheld are containers that are not to be started, by name, and why.
	Held map[string]Waiting
	// Inputs resolves what a container needs, when it is about to be created.
	ResolveInputs func(ctx context.Context, c *v1.Container, podIPs []string) (Inputs, error)
	// PullCredentials are what images are pulled with.
	Credentials PullCredentials
	// Sandbox is for the config of the sandbox.
	Sandbox SandboxInputs
	// RestartCap is the longest delay of the pod's crash-loop back-off; 0 stands
	// for that of the Backoff.
	MaxRestartPeriod time.Duration
	// HostIP is the node's address for hooks of a pod on its network; empty
	// stands for 127.0.0.1.
	HostIP string
	// PostStart is, by container name, the instance whose postStart hook is
	// known to have returned. That of another one which runs is performed.
	PostStartDone map[string]string
	// RestartCounts is, by container name, the least restart count of its next
	// instance: for one that neither the runtime nor the logs remember.
	MinRestartCounts map[string]int
}

// SyncResult is what came of it.
type SyncResult struct {
	// Acted says that the runtime was asked to change something, whether or
	// not that succeeded: the next decision needs a newer look.
	Acted bool
	// Waiting tells why containers could not be started, by container name; a
	// sandbox that could not be made is under "".
	Waiting map[string]Waiting
	// PostStart are the instances whose postStart hook has returned in this
	// Sync, by container name.
	PostStartDone map[string]string
	// Resized are the resizes that were made, ResizeFaults why others were not,
	// by container name.
	Resized      []Resize
	ResizeErrors map[string]string
	// RetryAfter is when the first back-off ends, 0 if none runs. It may be
	// set beside Err.
	RetryAfter time.Duration
	// Err is what went wrong. A container that is only held back is no error.
	Err error
}

// Waiting is the reason, in the kubelet's words, and the message of a
// container that is not started.
type Waiting struct{ Reason, Message string }

// Reasons of failures that are not the image's.
const (
	reasonCrashLoop       = "CrashLoopBackOff"
	reasonSandbox         = "CreatePodSandboxError"
	reasonContainerConfig = "CreateContainerConfigError"
	reasonCreate          = "CreateContainerError"
	reasonRun             = "RunContainerError"
)

// waitError is why a container is not started. Without a cause it is only
// held back.
type waitError struct {
	Waiting
	cause      error
	retryAfter time.Duration
}

func (e *waitError) Error() string { return e.Reason + ": " + e.Message }
func (e *waitError) Unwrap() error { return e.cause }

// detail is what the runtime said, without the operation.
func detail(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return err.Error()
}
