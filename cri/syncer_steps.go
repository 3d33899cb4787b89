package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sync takes the steps of the kubelet's SyncPod: compute what the pod needs, kill
// what must not keep running, remove old init containers, create the sandbox,
// start the next init container or the regular containers. A container that fails
// does not keep others from starting; a failure before that ends the Sync, and
// the next one starts from what is then observed.
func (s *Syncer) Sync(ctx context.Context, r SyncRequest) SyncResult {
	t := &transaction{Syncer: s, SyncRequest: r}
	t.result.Err = t.run(ctx)
	if ctx.Err() != nil {
		// The caller gave up; errors that follow from that say nothing about the
		// pod.
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
	result  SyncResult
	// sandboxConfig is that of the sandbox which is kept or was made.
	sandboxConfig *runtimeapi.PodSandboxConfig
}

func (t *transaction) run(ctx context.Context) error {
	// 1. Compute what the pod needs.
	if err := t.refreshStatus(ctx); err != nil {
		return err
	}
	t.actions = Plan(t.planInput())
	t.podIPs = t.Status.IPs
	if t.actions.RestartAll != nil {
		return t.restartAll(ctx)
	}

	// A sandbox that keeps failing waits for its back-off, and so do the remains
	// of the last attempt.
	if t.actions.CreateSandbox && !t.Status.Pod().Running() {
		if held := t.startBackoff.wait(t.Pod, ""); held != nil {
			t.setWaiting("", held)
			return nil
		}
	}
	// 2. and 3. Kill the pod or the containers that must not keep running.
	if err := t.kill(ctx); err != nil {
		return err
	}
	// 4. Remove old init containers and containers that were never started.
	if err := t.removeStale(ctx); err != nil {
		return err
	}
	// 5. Create the sandbox, if the runtime supports what the pod requires.
	if !t.actions.CreateSandbox {
		t.useKeptSandbox()
	}
	if t.actions.CreateSandbox || len(t.actions.StartEphemeral)+len(t.actions.StartInit)+len(t.actions.Start) > 0 {
		if err := t.checkSupport(ctx); err != nil {
			return err
		}
	}
	if t.actions.CreateSandbox {
		t.warnBandwidth(ctx)
		if err := t.createSandbox(ctx); err != nil {
			return err
		}
	}
	t.sandboxConfig = t.config.sandbox(t.Pod, t.actions.Attempt, t.Sandbox)
	// 6. Resize containers that keep running.
	t.resize(ctx)
	// 7. Start the next init container, or 8. the regular ones.
	return t.startContainers(ctx)
}

// useKeptSandbox creates containers for the sandbox that exists: it has the
// cgroup and the handler that it was created with, which may differ from those of
// a new sandbox, or be absent.
func (t *transaction) useKeptSandbox() {
	for i := range t.Status.Sandboxes {
		if s := &t.Status.Sandboxes[i]; s.ID == t.actions.SandboxID {
			t.Sandbox.CgroupParent, t.Sandbox.RuntimeHandler = s.CgroupParent(), s.RuntimeHandler
		}
	}
}

// refreshStatus observes the pod again if the status does not contain what was
// created last: either it was removed by another client, or the status is too
// old, and acting on it would create duplicates.
func (t *transaction) refreshStatus(ctx context.Context) error {
	if t.Status != nil && t.expectations.metBy(t.Pod.UID, t.Status) {
		return nil
	}
	status, err := t.runtime.PodStatus(ctx, t.Pod.UID)
	if err != nil {
		return fmt.Errorf("failed to observe pod: %w", err)
	}
	t.expectations.prune(t.Pod.UID, status)
	t.Status = status
	return nil
}

func (t *transaction) kill(ctx context.Context) error {
	pod := t.Status.Pod()
	if t.actions.KillPod {
		if t.actions.CreateSandbox && t.actions.SandboxID != "" {
			t.events.Event(t.Pod, v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
		}
		if pod.Running() || t.actions.CreateSandbox {
			t.result.Acted = true
			err := t.Kill(ctx, KillRequest{Pod: t.Pod, Observed: pod, Grace: t.grace(), HostIP: t.HostIP,
				notKilled: t.noteNotKilled})
			if err != nil && ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {
				message := "error killing pod: " + err.Error()
				t.events.Event(t.Pod, v1.EventTypeWarning, ReasonFailedKillPod, message)
				t.setWaiting("", &waitError{Waiting: Waiting{reasonKillSandbox, message}})
			}
			return err
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
		if k.Reason == KillChanged || k.Reason == KillResize {
			// The container restarts because of its inputs and not because it
			// crashed.
			t.backoff.reset(t.Pod.UID, k.Name)
		}
	}
	return errors.Join(t.killContainers(ctx, t.killContext(pod), kills)...)
}

// noteNotKilled notes that a kill has failed without effect.
func (t *transaction) noteNotKilled(id string) { t.result.NotKilled = append(t.result.NotKilled, id) }

// grace returns the pod's grace period in seconds.
func (r *SyncRequest) grace() int64 {
	switch {
	case r.Pod.DeletionGracePeriodSeconds != nil:
		return *r.Pod.DeletionGracePeriodSeconds
	case r.Pod.Spec.TerminationGracePeriodSeconds != nil:
		return *r.Pod.Spec.TerminationGracePeriodSeconds
	}
	return minGrace
}

// removeStale removes containers that are no longer needed, with their files.
func (t *transaction) removeStale(ctx context.Context) error {
	gone := slices.Concat(t.actions.RemoveInit, t.actions.Remove)
	for i := range t.Status.Containers {
		c := &t.Status.Containers[i]
		if !slices.Contains(gone, c.ID) {
			continue
		}
		t.result.Acted = true
		if err := t.runtime.RemoveContainer(ctx, c.ID); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		t.expectations.remove(t.Pod.UID, c.ID)
		t.removeFiles(c)
	}
	return nil
}

// removeFiles removes the files that a removed instance left on the host. What
// cannot be removed is removed with the pod.
func (t *transaction) removeFiles(c *Container) {
	dir := LogDirectory(t.config.logRoot, t.Pod.Namespace, t.Pod.Name, t.Pod.UID)
	removeLogs(filepath.Join(dir, LogPath(c.Name, c.RestartCount)))
	_ = os.Remove(filepath.Join(t.logLinks, LogLink(t.Pod.Namespace, t.Pod.Name, c.Name, c.ID)))
	t.removeMessage(c)
}

// removeMessage removes the file of an instance's termination message. The
// runtime reported its path, so the path is checked before it is used.
func (t *transaction) removeMessage(c *Container) {
	file := filepath.Clean(c.TerminationMessageHost)
	if strings.HasSuffix(filepath.Dir(file), filepath.Join("/", string(t.Pod.UID), "containers", c.Name)) {
		_ = os.Remove(file)
	}
}

// setWaiting records why a container, or the sandbox, is not started.
func (t *transaction) setWaiting(name string, w *waitError) {
	if t.result.Waiting == nil {
		t.result.Waiting = map[string]Waiting{}
	}
	t.result.Waiting[name] = w.Waiting
	if w.retryAfter > 0 && (t.result.RetryAfter == 0 || w.retryAfter < t.result.RetryAfter) {
		t.result.RetryAfter = w.retryAfter
	}
}
