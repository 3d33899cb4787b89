package cri

import (
	"context"
	"errors"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// createSandbox creates the pod's sandbox and reads its addresses.
func (t *transaction) createSandbox(ctx context.Context) error {
	defer t.measure(StepSandbox)()
	config := t.config.sandbox(t.Pod, t.actions.Attempt, t.Sandbox)
	t.reportOmitted()
	id, err := t.runSandbox(ctx, config)
	if errors.Is(err, errNameReserved) {
		var next uint32
		if next, err = t.freeAttempt(ctx, t.actions.Attempt, err); err == nil {
			t.actions.Attempt = next
			id, err = t.runSandbox(ctx, t.config.sandbox(t.Pod, next, t.Sandbox))
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			message := fmt.Sprintf("Failed to create pod sandbox: %s", detail(err))
			t.events.Event(t.Pod, v1.EventTypeWarning, "FailedCreatePodSandBox", message)
			why := Waiting{reasonSandbox, message}
			t.setWaiting("", &waitError{Waiting: why})
			t.startBackoff.failed(t.Pod, "", why)
		}
		return fmt.Errorf("failed to create pod sandbox: %w", err)
	}
	t.actions.SandboxID = id
	t.reserved.forget(t.Pod.UID)
	t.startBackoff.succeeded(t.Pod.UID, "")
	t.expectations.expect(t.Pod.UID, "", id)
	t.podIPs = nil
	status, err := t.runtime.PodStatus(ctx, t.Pod.UID)
	if err == nil && t.SandboxReady != nil {
		t.SandboxReady(status)
	}
	if t.Pod.Spec.HostNetwork {
		// Nothing that the sandbox has is needed for its containers.
		return nil
	}
	if err != nil {
		if ctx.Err() == nil {
			t.events.Event(t.Pod, v1.EventTypeWarning, "FailedPodSandBoxStatus",
				"Unable to get pod sandbox status: "+detail(err))
		}
		return fmt.Errorf("failed to inspect pod sandbox: %w", err)
	}
	t.podIPs = status.IPs
	return nil
}

// reportOmitted warns of labels and annotations that the runtime does not get.
func (t *transaction) reportOmitted() {
	_, labels := passed(t.Pod.Labels)
	_, annotations := passed(t.Pod.Annotations)
	if labels+annotations > 0 {
		t.log.Warn("Not passing all labels and annotations of the pod to the runtime, they are larger than 16 KiB",
			"pod", t.Pod.Namespace+"/"+t.Pod.Name, "labels", labels, "annotations", annotations)
	}
}

// enterStart waits until a call that starts something may be made.
func (t *transaction) enterStart(ctx context.Context, stage int) (leave func(), err error) {
	return t.starts.enter(ctx, podinfo.Priority(t.Pod), stage, gateHold, func() {
		if t.Queued != nil {
			t.Queued(Waiting{reasonQueued, "waiting for the starts of other pods"})
		}
	})
}

// errNameReserved means that the name of a sandbox is reserved for one that is not
// this daemon's, or that no list shows.
var errNameReserved = errors.New("the sandbox's name is taken")

// runSandbox creates a sandbox. If its name is taken, an earlier call whose reply
// was lost created it; then that sandbox is used.
func (t *transaction) runSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig) (string, error) {
	if err := os.MkdirAll(config.LogDirectory, logDirMode); err != nil {
		return "", fmt.Errorf("failed to create the log directory: %w", err)
	}
	leave, err := t.enterStart(ctx, stageBegin)
	if err != nil {
		return "", err
	}
	defer leave()
	t.result.Acted = true
	id, err := t.runtime.RunPodSandbox(ctx, config, t.Sandbox.RuntimeHandler)
	if !errors.Is(err, ErrExists) {
		return id, err
	}
	status, lookErr := t.runtime.PodStatus(ctx, t.Pod.UID)
	if lookErr != nil {
		return "", lookErr
	}
	found, listed := "", false
	for i := range status.Sandboxes {
		s := &status.Sandboxes[i]
		listed = listed || s.Attempt == config.Metadata.Attempt
		switch {
		case !s.Ready:
		case found != "" || s.Attempt != config.Metadata.Attempt:
			// More than one sandbox, or not the expected one: the next Sync plans
			// for that.
			return "", err
		default:
			found = s.ID
		}
	}
	if !listed && found == "" {
		return "", fmt.Errorf("%w: %w", errNameReserved, err)
	}
	if found == "" || len(status.Containers) > len(t.Status.Containers) {
		// It is not ready yet, or it has containers that the status did not
		// contain: the next Sync plans for that too.
		return "", err
	}
	return found, nil
}
