package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is what the Syncer needs of the runtime. *Client implements it.
type Runtime interface {
	PodStatus(ctx context.Context, uid types.UID) (*PodStatus, error)
	RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (id string, err error)
	StopPodSandbox(ctx context.Context, id string) error
	RemovePodSandbox(ctx context.Context, id string) error
	CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (id string, err error)
	StartContainer(ctx context.Context, id string) error
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	RemoveContainer(ctx context.Context, id string) error
}

// Recorder takes events about pods. eventType is Normal or Warning.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// SyncerConfig is what a Syncer is made of.
type SyncerConfig struct {
	Runtime Runtime
	Images  ImageRuntime
	// Events may be nil.
	Events Recorder
	// Log may be nil.
	Log *slog.Logger
	// Backoff spaces out restarts; nil makes one with the default limit.
	Backoff *Backoff
	// Instance is the value of LabelInstance on what is made. It must be the
	// one by which the Runtime knows its own.
	Instance string
	// LogRoot holds the pods' log folders and LogLinks the links to logs;
	// empty stands for DefaultLogRoot and DefaultLogLinks.
	LogRoot, LogLinks string
	// HostMemory is the host's in bytes; 0 asks the kernel.
	HostMemory int64
}

// Syncer brings the runtime to what is wanted of a pod, one call of Sync at a
// time for a pod; different pods may be synced at the same time. It remembers
// back-offs and what it made last; all else is read from the runtime.
type Syncer struct {
	runtime  Runtime
	images   *images
	events   Recorder
	log      *slog.Logger
	backoff  *Backoff
	config   config
	logLinks string
	made     made
}

// NewSyncer makes a Syncer.
func NewSyncer(c SyncerConfig) *Syncer {
	s := &Syncer{runtime: c.Runtime, events: c.Events, log: c.Log, backoff: c.Backoff, logLinks: c.LogLinks}
	if s.events == nil {
		s.events = noEvents{}
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
	s.config = config{instance: c.Instance, logRoot: c.LogRoot, memory: c.HostMemory, masked: hostMaskedPaths("/sys")}
	s.images = newImages(c.Images, s.events)
	return s
}

// hostMemory is the host's memory in bytes, 0 if the kernel does not tell.
func hostMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit) //nolint:unconvert // the field's width differs by architecture
}

type noEvents struct{}

func (noEvents) Event(*v1.Pod, string, string, string) {}

// Backoff is the crash-loop back-off that the Syncer keeps to.
func (s *Syncer) Backoff() *Backoff { return s.backoff }

// Forget drops what is remembered of a pod: its back-offs and what was made.
func (s *Syncer) Forget(uid types.UID) {
	s.backoff.Forget(uid)
	s.images.forgetPod(uid)
	s.made.forget(uid)
}

// SyncRequest is one look at a pod.
type SyncRequest struct {
	Pod *v1.Pod
	// Status was observed after the last act on this pod had ended.
	Status *PodStatus
	// Failed tells of probes, by container ID.
	Failed map[string]KillReason
	// Inputs resolves what a container needs, when it is about to be created.
	Inputs func(ctx context.Context, c *v1.Container, podIPs []string) (Inputs, error)
	// Sandbox is for the config of the sandbox.
	Sandbox SandboxInputs
	// RestartCounts is, by container name, the least restart count of its next
	// instance: for one that neither the runtime nor the logs remember.
	RestartCounts map[string]int
}

// SyncResult is what came of it.
type SyncResult struct {
	// Acted says that the runtime was asked to change something, whether or
	// not that succeeded: the next decision needs a newer look.
	Acted bool
	// Waiting tells why containers could not be started, by container name; a
	// sandbox that could not be made is under "".
	Waiting map[string]Waiting
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

// Sync takes the steps of the kubelet's SyncPod: see what the pod needs, end
// what must go, remove init history, make the sandbox, start the next init
// container or the regular containers. A container's failure does not keep the
// others from starting; a failure before that ends the Sync, and the next one
// begins from what is then observed.
func (s *Syncer) Sync(ctx context.Context, r SyncRequest) SyncResult {
	t := &transaction{Syncer: s, SyncRequest: r}
	t.result.Err = t.run(ctx)
	if ctx.Err() != nil {
		// The caller gave up; what that broke says nothing about the pod.
		t.result.Waiting = nil
	}
	return t.result
}

// transaction is one Sync.
type transaction struct {
	*Syncer
	SyncRequest
	actions Actions
	podIPs  []string
	sandbox *runtimeapi.PodSandboxConfig
	result  SyncResult
}

func (t *transaction) run(ctx context.Context) error {
	// 1. What the pod needs.
	if err := t.trustStatus(ctx); err != nil {
		return err
	}
	t.actions = Plan(PlanInput{Pod: t.Pod, Status: t.Status, Failed: t.Failed})
	t.podIPs = t.Status.IPs

	// 2. and 3. End the pod or the containers that are not to go on.
	if err := t.kill(ctx); err != nil {
		return err
	}
	// 4. Remove init containers that are history, and what was never started.
	if err := t.prune(ctx); err != nil {
		return err
	}
	// 5. The sandbox.
	if t.actions.CreateSandbox {
		if err := t.createSandbox(ctx); err != nil {
			return err
		}
	}
	t.sandbox = t.config.sandbox(t.Pod, t.actions.Attempt, t.Sandbox)
	// 6. The next init container, 7. or the regular ones.
	return t.startContainers(ctx)
}

// trustStatus looks again where the status does not show what was made last:
// either it was removed by somebody else, or the status is older than it
// should be, and acting on it would make things twice.
func (t *transaction) trustStatus(ctx context.Context) error {
	if t.Status != nil && t.made.shown(t.Status) {
		return nil
	}
	status, err := t.runtime.PodStatus(ctx, t.Pod.UID)
	if err != nil {
		return fmt.Errorf("cannot observe pod: %w", err)
	}
	t.made.settle(status)
	t.Status = status
	return nil
}

func (t *transaction) kill(ctx context.Context) error {
	pod := observedPod(t.Status)
	if t.actions.KillPod {
		if t.actions.CreateSandbox && t.actions.SandboxID != "" {
			t.events.Event(t.Pod, v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		}
		if pod.Running() || t.actions.CreateSandbox {
			t.result.Acted = true
			return t.Kill(ctx, KillRequest{Pod: t.Pod, Observed: pod, Grace: t.grace()})
		}
		return nil
	}
	if len(t.actions.Kill) == 0 {
		return nil
	}
	t.result.Acted = true
	kills := make([]Kill, len(t.actions.Kill))
	for i, k := range t.actions.Kill {
		if k.Grace == nil {
			grace := t.grace()
			k.Grace = &grace
		}
		kills[i] = k
	}
	return t.killContainers(ctx, t.Pod, kills)
}

// grace is the pod's grace period in seconds.
func (t *transaction) grace() int64 {
	switch {
	case t.Pod.DeletionGracePeriodSeconds != nil:
		return *t.Pod.DeletionGracePeriodSeconds
	case t.Pod.Spec.TerminationGracePeriodSeconds != nil:
		return *t.Pod.Spec.TerminationGracePeriodSeconds
	}
	return minGrace
}

func (t *transaction) prune(ctx context.Context) error {
	for _, ids := range [][]string{t.actions.RemoveInit, t.actions.Remove} {
		for _, id := range ids {
			t.result.Acted = true
			if err := t.runtime.RemoveContainer(ctx, id); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			t.made.removed(t.Pod.UID, id)
		}
	}
	return nil
}

// wait notes why a container, or the sandbox, is not started.
func (t *transaction) wait(name string, w *waitError) {
	if t.result.Waiting == nil {
		t.result.Waiting = map[string]Waiting{}
	}
	t.result.Waiting[name] = w.Waiting
	if w.retryAfter > 0 && (t.result.RetryAfter == 0 || w.retryAfter < t.result.RetryAfter) {
		t.result.RetryAfter = w.retryAfter
	}
}
