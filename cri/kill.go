package cri

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// minGrace is the least time in seconds between the signal that asks a
// container to end and the one that kills it, whatever was asked for and
// however much of the grace period is used up, as with the kubelet.
const minGrace = 2

// KillRequest is a pod to end.
type KillRequest struct {
	// Pod is who events are about; nil if it is not known any more. How its
	// containers end is not read from it: each tells by its annotations.
	Pod *v1.Pod
	// Observed is what there is of the pod.
	Observed *Pod
	// Grace in seconds is what the containers have to end by themselves, preStop
	// hooks included. With 0 there are none.
	Grace int64
	// Reason is for people, and may be empty.
	Reason string
	// HostIP is the node's address for hooks of a pod on its network; empty
	// stands for 127.0.0.1.
	HostIP string
}

// Kill ends a pod: all its containers at the same time, each with the grace
// period, sidecars when their turn comes, then its sandboxes. A runtime that
// does not answer is bounded by the deadline of the calls; the error says what
// is still to be ended, and Kill may be called again: it goes on where the last
// one ended, and a shorter grace counts from then.
//
// A sandbox is stopped only when its containers have ended or their time is
// over, since stopping it kills at once. (The kubelet stops it even if asking
// the containers failed.)
func (s *Syncer) Kill(ctx context.Context, r KillRequest) error {
	pod := r.Pod
	if pod == nil {
		pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: r.Observed.Name, Namespace: r.Observed.Namespace, UID: r.Observed.UID}}
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
	k := killContext{pod: pod, observed: r.Observed, hostIP: r.HostIP, order: newTerminationOrder(r.Observed)}
	errs := s.killContainers(ctx, k, kills)
	for _, err := range errs {
		if err != nil && (!errors.Is(err, ErrTimeout) || ctx.Err() != nil) {
			return errors.Join(errs...)
		}
	}
	errs = append(errs, s.stopSandboxes(ctx, r.Observed.Sandboxes)...)
	return errors.Join(errs...)
}

// stopSandboxes stops all sandboxes, also those that are not ready: they may
// still hold an address and host ports.
func (s *Syncer) stopSandboxes(ctx context.Context, sandboxes []Sandbox) []error {
	return inParallel(sandboxes, func(sandbox Sandbox) error {
		if err := s.runtime.StopPodSandbox(ctx, sandbox.ID); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		return nil
	})
}

// Remove removes dead containers, then sandboxes. What is gone is no error.
// Logs stay: they belong to whoever keeps the pod's files.
func (s *Syncer) Remove(ctx context.Context, pod *Pod) error {
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
		return errors.Join(errs...)
	}
	for i := range pod.Sandboxes {
		err := s.runtime.RemovePodSandbox(ctx, pod.Sandboxes[i].ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			errs = append(errs, err)
			continue
		}
		s.expectations.remove(pod.UID, pod.Sandboxes[i].ID)
	}
	return errors.Join(errs...)
}

// inParallel does something with each of a list at the same time and returns
// the errors in the list's order.
func inParallel[T any](list []T, do func(T) error) []error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() { errs[i] = do(list[i]) })
	}
	all.Wait()
	return errs
}

// seconds is a whole number of seconds as a duration.
func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
