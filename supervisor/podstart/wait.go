package podstart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podorder"
	"github.com/podstead/podstead/supervisor/podset"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// ErrNotStarted is in the error of Started if a pod did not start.
var ErrNotStarted = errors.New("not every pod started")

// Reasons of pods that a start depends on, the kubelet's where it has them.
const (
	// ReasonTerminated: the pod ended for a shutdown of the host.
	ReasonTerminated = "Terminated"
	// ReasonFailedCgroup is the kubelet's, of the event for the same.
	ReasonFailedCgroup = "FailedCreatePodContainer"
	// ReasonSandboxError: the runtime created no sandbox.
	ReasonSandboxError = "CreatePodSandboxError"
)

// Waiter waits for the starts of the desired pods.
type Waiter struct {
	Desired *podset.Set
	// Sources returns the sources that are going to deliver.
	Sources func() []manifest.Source
	// Status returns a pod's status, and whether it has one. Subscribe returns a
	// channel that receives after a status changed, until the function is called.
	Status    func(types.UID) (v1.PodStatus, bool)
	Subscribe func() (<-chan struct{}, func())
}

// failedWaitingReasons are the waiting reasons of a container that will not start
// without a change, or has failed more than once.
var failedWaitingReasons = []string{
	"CrashLoopBackOff", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError", "ImageInspectError",
}

// sandboxPatience is how long a pod may fail to get a sandbox before its start counts as
// failed: the runtime's errors are often gone with the next attempt.
const sandboxPatience = 30 * time.Second

// failedPodReasons are the reasons of a pod that mean the same of the whole pod.
var failedPodReasons = append([]string{podworkers.ReasonNameTaken, podinputs.ReasonFailedMount, ReasonFailedCgroup,
	ReasonSandboxError, cri.ReasonUnsupported,
	podinputs.ReasonRuntimeClassNotFound, podinputs.ReasonPriorityClassNotFound, podinputs.ReasonClassConflict,
	podorder.ReasonNotFound, podorder.ReasonCycle}, admit.Reasons...)

// Started waits until each source has delivered, or was restored from the
// checkpoint, and each desired pod runs, has succeeded or has failed. It reports each
// pod once, in that order of time, with a nil error for a pod that runs or succeeded.
// It returns nil if all started, an error that wraps ErrNotStarted if not, and one
// that also wraps the context's error and names the pods that are still starting if
// the context ends first.
func (w Waiter) Started(ctx context.Context, report func(pod *v1.Pod, err error)) error {
	changed, cancel := w.Subscribe()
	defer cancel()
	sources, unsubscribe := w.Desired.Subscribe()
	defer unsubscribe()
	reported := map[types.UID]bool{}
	// sandboxFailed is when a pod first failed to get a sandbox.
	sandboxFailed := map[types.UID]time.Time{}
	patience := time.NewTimer(sandboxPatience)
	defer patience.Stop()
	// failed are the names of the pods that did not start.
	failed := map[string]bool{}
	for {
		ready := w.Desired.AllReady(w.Sources())
		var starting []string
		// misplaced wait for others to run or to end.
		misplaced := map[*v1.Pod]error{}
		next, failures := sandboxPatience, len(failed)
		for _, pod := range w.Desired.List() {
			if reported[pod.UID] {
				continue
			}
			pod = pod.DeepCopy()
			if st, ok := w.Status(pod.UID); ok {
				pod.Status = st
			}
			settled, err := Settled(pod)
			if pod.Status.Reason == ReasonSandboxError {
				if _, before := sandboxFailed[pod.UID]; !before {
					sandboxFailed[pod.UID] = time.Now()
				}
				left := time.Until(sandboxFailed[pod.UID].Add(sandboxPatience))
				if settled = left <= 0; settled {
					err = fmt.Errorf("pod %s cannot start: %s", podinfo.FullName(pod), pod.Status.Message)
				} else {
					next = min(next, left)
				}
			}
			if !settled {
				settled, err = w.dependencyFailed(pod, failed)
			}
			if !settled && admit.IsPlacement(pod.Status.Reason) {
				misplaced[pod] = fmt.Errorf("pod %s cannot start: %s", podinfo.FullName(pod), pod.Status.Message)
			}
			if !settled {
				starting = append(starting, podinfo.FullName(pod))
				continue
			}
			reported[pod.UID] = true
			if err != nil {
				failed[manifestName(pod)] = true
			}
			report(pod, err)
		}
		if ready && len(misplaced) == len(starting) {
			// Nothing is left that could let them start.
			for pod, err := range misplaced {
				reported[pod.UID], failed[manifestName(pod)] = true, true
				report(pod, err)
			}
			starting = nil
		}
		if len(failed) > failures {
			continue // pods that depend on those have failed as well
		}
		if ready && len(starting) == 0 {
			if len(failed) > 0 {
				return ErrNotStarted
			}
			return nil
		}
		patience.Reset(next)
		select {
		case <-changed:
		case <-sources:
		case <-patience.C:
		case <-ctx.Done():
			slices.Sort(starting)
			return fmt.Errorf("%w: %w; still starting: %s", ErrNotStarted, ctx.Err(), strings.Join(starting, ", "))
		}
	}
}

// manifestName returns the name of a pod in its manifest, as namespace/name.
func manifestName(pod *v1.Pod) string { return pod.Namespace + "/" + manifest.BaseName(pod) }

// dependencyFailed reports whether a pod waits for one that did not start, or has
// failed since.
func (w Waiter) dependencyFailed(pod *v1.Pod, failed map[string]bool) (bool, error) {
	if pod.Status.Reason != podorder.ReasonNotReady {
		return false, nil
	}
	names, _ := podinfo.DependsOn(pod) // a pod that waits has a valid list
	for _, name := range names {
		if failed[name] || w.hasFailed(name) {
			return true, fmt.Errorf("pod %s cannot start: it depends on pod %s, which did not start or has failed",
				podinfo.FullName(pod), name)
		}
	}
	return false, nil
}

// hasFailed reports whether the pod of a name has failed for good.
func (w Waiter) hasFailed(name string) bool {
	return slices.ContainsFunc(w.Desired.List(), func(pod *v1.Pod) bool {
		if manifestName(pod) != name {
			return false
		}
		st, _ := w.Status(pod.UID)
		return st.Phase == v1.PodFailed && st.Reason != ReasonTerminated
	})
}

// SourcesReady waits until each source has delivered, or was restored from the
// checkpoint: the set has all desired pods from then on. It returns the context's
// error if that ends first.
func (w Waiter) SourcesReady(ctx context.Context) error {
	sources, unsubscribe := w.Desired.Subscribe()
	defer unsubscribe()
	for {
		if w.Desired.AllReady(w.Sources()) {
			return nil
		}
		select {
		case <-sources:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Settled reports whether a pod's start is settled, and if it failed why.
func Settled(pod *v1.Pod) (bool, error) {
	st := &pod.Status
	if st.Reason == ReasonTerminated && pod.Spec.RestartPolicy != v1.RestartPolicyNever {
		return false, nil // it ended for a shutdown, and will be restarted
	}
	switch st.Phase {
	case v1.PodSucceeded:
		return true, nil
	case v1.PodFailed:
		return true, fmt.Errorf("pod %s failed: %s", podinfo.FullName(pod), explain(st))
	}
	if slices.Contains(failedPodReasons, st.Reason) || admit.IsShortage(st.Reason) {
		return true, fmt.Errorf("pod %s cannot start: %s", podinfo.FullName(pod), st.Message)
	}
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil && slices.Contains(failedWaitingReasons, w.Reason) {
				return true, fmt.Errorf("container %q of pod %s cannot start: %s: %s", list[i].Name, podinfo.FullName(pod),
					w.Reason, w.Message)
			}
		}
	}
	if st.Phase != v1.PodRunning || len(st.ContainerStatuses) < len(pod.Spec.Containers) {
		return false, nil
	}
	for i := range st.ContainerStatuses {
		// A container that exited with 0 has started. A running one has started when
		// its postStart hook has returned and its startup probe has succeeded.
		c := &st.ContainerStatuses[i]
		switch {
		case c.State.Running != nil:
			if c.Started != nil && !*c.Started {
				return false, nil
			}
		case c.State.Terminated == nil || c.State.Terminated.ExitCode != 0:
			return false, nil
		}
	}
	return true, nil
}

func explain(st *v1.PodStatus) string {
	if st.Reason != "" || st.Message != "" {
		return strings.TrimSpace(st.Reason + " " + st.Message)
	}
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range list {
			if t := list[i].State.Terminated; t != nil && t.ExitCode != 0 {
				return fmt.Sprintf("container %q exited with code %d %s", list[i].Name, t.ExitCode, t.Reason)
			}
		}
	}
	return "a container exited with an error"
}
