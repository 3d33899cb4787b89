package cri

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// minGrace is the least time in seconds between the stop signal and SIGKILL,
// whatever was requested and however much of the grace period is used up, as with
// the kubelet.
const minGrace = 2

// KillRequest is a pod to terminate.
type KillRequest struct {
	// Pod is the pod that events are about; nil if it is no longer known. How to
	// terminate its containers is not read from it: their annotations report that.
	Pod *v1.Pod
	// Observed is the pod as last observed.
	Observed *Pod
	// Grace is the time in seconds that the containers have to exit, preStop
	// hooks included. With 0 no hooks run.
	Grace int64
	// Reason is for the event text, and may be empty.
	Reason string
	// HostIP is the node's address for hooks of a pod on the host's network;
	// empty means 127.0.0.1.
	HostIP string
	// Queued is called if the stop waits for those of other pods for more than a
	// second; may be nil.
	Queued func()
	// notKilled is that of killContext.
	notKilled func(id string)
}

// Kill terminates a pod: all its containers in parallel, each with the grace
// period, sidecars in their order, then its sandboxes. If the runtime does not
// answer, the deadlines of the calls limit the wait. The error reports what is still
// to be terminated, and Kill may be called again: it continues where the last
// call stopped, and a shorter grace period counts from then.
//
// A sandbox is stopped only when its containers have exited or their time is
// over, since stopping it kills them at once. (The kubelet stops it even if
// signaling the containers failed.)
func (s *Syncer) Kill(ctx context.Context, r KillRequest) error {
	pod := r.Pod
	if pod == nil {
		pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: r.Observed.Name, Namespace: r.Observed.Namespace,
			UID: r.Observed.UID}}
	}
	var kills []Kill
	for i := range r.Observed.Containers {
		c := &r.Observed.Containers[i]
		if c.State != StateRunning && c.State != StateUnknown {
			continue
		}
		message := "Stopping container " + c.Name
		if r.Reason != "" {
			message += ": " + r.Reason
		}
		kills = append(kills, Kill{ID: c.ID, Name: c.Name, Message: message, Grace: &r.Grace})
	}
	k := killContext{pod: pod, observed: r.Observed, hostIP: r.HostIP, order: newTerminationOrder(r.Observed),
		notKilled: r.notKilled}
	leave, err := s.stops.enter(ctx, podinfo.Priority(pod), stageBegin, signalHold, r.Queued)
	if err != nil {
		return err
	}
	errs := s.killContainers(ctx, k, kills)
	leave()
	for _, err := range errs {
		if err != nil && (!errors.Is(err, ErrTimeout) || ctx.Err() != nil) {
			return withNames(errors.Join(errs...), r.Observed)
		}
	}
	errs = append(errs, s.stopSandboxes(ctx, pod, r.Observed)...)
	return withNames(errors.Join(errs...), r.Observed)
}

// HostShutdown makes the stops of all pods begin at once while the host shuts down: a
// pod that waited for the stops of others would lose that time of its grace period,
// since the host does not wait. Sandboxes are still stopped in turn.
func (s *Syncer) HostShutdown(begun bool) { s.stops.admitBegins(begun) }

// stopSandboxes stops all sandboxes, also those that are not ready: they may
// still hold an address and host ports. A stop of a dead sandbox that keeps failing
// is not an error, so that it keeps no pod down.
func (s *Syncer) stopSandboxes(ctx context.Context, pod *v1.Pod, observed *Pod) []error {
	return inParallel(observed.Sandboxes, func(sandbox Sandbox) error {
		leave, err := s.stops.enter(ctx, podinfo.Priority(pod), stageFinish, gateHold, nil)
		if err != nil {
			return err
		}
		defer leave()
		err = s.runtime.StopPodSandbox(ctx, sandbox.ID)
		switch {
		case err == nil, errors.Is(err, ErrNotFound):
			return nil
		case ctx.Err() == nil && !errors.Is(err, ErrUnavailable) && s.abandonStop(pod, observed, &sandbox, err):
			return nil
		}
		return err
	})
}

// Remove removes dead containers, then sandboxes. One that is gone is not an
// error. Logs are kept: they are removed with the pod's files.
func (s *Syncer) Remove(ctx context.Context, pod *Pod) error {
	leave, err := s.stops.enter(ctx, 0, stageRemove, gateHold, nil)
	if err != nil {
		return err
	}
	defer leave()
	var errs []error
	for i := range pod.Containers {
		err := s.runtime.RemoveContainer(ctx, pod.Containers[i].ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			errs = append(errs, err)
			continue
		}
		s.expectations.remove(pod.UID, pod.Containers[i].ID)
		s.terminations.end(pod.UID, pod.Containers[i].ID)
	}
	if len(errs) > 0 {
		return withNames(errors.Join(errs...), pod)
	}
	for i := range pod.Sandboxes {
		err := s.runtime.RemovePodSandbox(ctx, pod.Sandboxes[i].ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			errs = append(errs, err)
			continue
		}
		s.expectations.remove(pod.UID, pod.Sandboxes[i].ID)
	}
	return withNames(errors.Join(errs...), pod)
}

// inParallel calls do for all elements in parallel and returns the errors in
// their order.
func inParallel[T any](list []T, do func(T) error) []error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() { errs[i] = do(list[i]) })
	}
	all.Wait()
	return errs
}

// seconds converts a whole number of seconds to a duration.
func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
