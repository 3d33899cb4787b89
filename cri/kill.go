package cri

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// minGrace is the least grace in seconds that a container gets, whatever was
// asked for, as with the kubelet.
const minGrace = 2

// KillRequest is a pod to end.
type KillRequest struct {
	// Pod is nil if it is not known any more.
	Pod *v1.Pod
	// Observed is what there is of the pod.
	Observed *Pod
	// Grace in seconds is what the containers have to end by themselves.
	Grace int64
	// Reason is for people, and may be empty.
	Reason string
}

// Kill ends a pod: all its containers at the same time, each with the grace
// period, then its sandboxes. A runtime that does not answer is bounded by the
// deadline of the calls; the error says what is still to be ended, and Kill
// may be called again.
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
	errs := s.killContainers(ctx, pod, kills)
	for _, err := range errs {
		if err != nil && (!errors.Is(err, ErrTimeout) || ctx.Err() != nil) {
			return errors.Join(errs...)
		}
	}
	errs = append(errs, s.stopSandboxes(ctx, r.Observed.Sandboxes)...)
	return errors.Join(errs...)
}

// killContainers ends containers at the same time. All have their grace set.
func (s *Syncer) killContainers(ctx context.Context, pod *v1.Pod, kills []Kill) []error {
	return inParallel(kills, func(k Kill) error {
		s.events.Event(pod, v1.EventTypeNormal, "Killing", k.Message)
		err := s.runtime.StopContainer(ctx, k.ID, seconds(max(*k.Grace, minGrace)))
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("cannot stop container %q: %w", k.Name, err)
		}
		return nil
	})
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
		s.made.removed(pod.UID, pod.Containers[i].ID)
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
		s.made.removed(pod.UID, pod.Sandboxes[i].ID)
	}
	return errors.Join(errs...)
}

// observedPod is a status as what there is of a pod.
func observedPod(s *PodStatus) *Pod {
	return &Pod{UID: s.UID, Name: s.Name, Namespace: s.Namespace, Sandboxes: s.Sandboxes, Containers: s.Containers}
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
