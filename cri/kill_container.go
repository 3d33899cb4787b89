package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// killContext is what the terminations of a pod's containers have in common.
type killContext struct {
	// pod is the pod that events are about.
	pod      *v1.Pod
	observed *Pod
	hostIP   string
	// order is nil if the pod keeps running: then no container waits for another.
	order *terminationOrder
	// notKilled is called for each instance whose kill failed without effect; may be nil.
	notKilled func(id string)
}

// container returns the observed container with an ID. One that was not observed
// needs no special treatment.
func (k *killContext) container(id string) *Container {
	for i := range k.observed.Containers {
		if c := &k.observed.Containers[i]; c.ID == id {
			return c
		}
	}
	return &Container{ID: id}
}

// hookIP returns the address that hooks of a container connect to.
func (k *killContext) hookIP(c *Container) string {
	for i := range k.observed.Sandboxes {
		if sb := &k.observed.Sandboxes[i]; sb.ID == c.SandboxID {
			return hookIP(sb.HostNetwork, sb.IPs, k.hostIP)
		}
	}
	return ""
}

// killContext is for killing containers of a pod that keeps running.
func (t *transaction) killContext(observed *Pod) killContext {
	return killContext{pod: t.Pod, observed: observed, hostIP: t.HostIP, notKilled: t.noteNotKilled}
}

// killContainers terminates containers in parallel. All have their grace period
// set.
func (s *Syncer) killContainers(ctx context.Context, k killContext, kills []Kill) []error {
	errs := inParallel(kills, func(one Kill) error {
		err := s.killContainer(ctx, &k, one)
		k.order.finished(one.ID, err)
		if err != nil {
			detail := strings.TrimPrefix(err.Error(), "failed to stop container "+one.ID+": ")
			return &namedError{text: fmt.Sprintf("failed to stop container %q: %s", one.Name, detail), err: err}
		}
		return nil
	})
	for i, err := range errs {
		if err != nil && k.notKilled != nil && ctx.Err() == nil && !uncertain(err) {
			k.notKilled(kills[i].ID)
		}
	}
	return errs
}

// killContainer terminates one container: its preStop hook, then, for a sidecar,
// the wait for its turn, both within the grace period, then the stop signal with
// what is left of it. A hook that outlasts the grace period keeps running while the
// container has its least time after the signal, as with the kubelet.
func (s *Syncer) killContainer(ctx context.Context, k *killContext, kill Kill) error {
	c := k.container(kill.ID)
	stop, first := s.terminations.begin(k.pod.UID, kill.ID, seconds(max(*kill.Grace, 0)))
	if first {
		s.events.Event(k.pod, v1.EventTypeNormal, "Killing", kill.Message)
	}
	c = k.withHook(c)
	if c.PreStop != nil && c.State == StateRunning && *kill.Grace > 0 && !stop.preStopDone {
		hook := s.startPreStop(ctx, k, c)
		defer hook.end(ctx)
		if err := hook.wait(ctx, stop.deadline); err != nil {
			return err
		}
		stop.preStopDone = true
	}
	if err := k.order.wait(ctx, c, stop.deadline); err != nil {
		return err
	}
	left := max(time.Until(stop.deadline), 0)
	if stop.signaledAt.IsZero() {
		left = max(left, seconds(minGrace))
		stop.signaledAt = time.Now()
	} else {
		// minGrace counts from the first signal.
		left = max(left, seconds(minGrace)-time.Since(stop.signaledAt))
	}
	err := explainSignal(s.runtime.StopContainer(ctx, kill.ID, left))
	switch {
	case err == nil, errors.Is(err, ErrNotFound):
		s.terminations.end(k.pod.UID, kill.ID)
		return nil
	case ctx.Err() == nil && !errors.Is(err, ErrTimeout):
		// It may not have been signaled at all: the next attempt gets as much
		// time as this one had.
		stop.signaledAt, stop.deadline = time.Time{}, time.Time{}
		stop.remaining = left
	}
	return err
}

// explainSignal adds the remedy to the error of a stop whose signal was denied: root may
// signal every process, so it was the AppArmor profile of the container.
func explainSignal(err error) error {
	if err == nil || !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(), "signal") {
		return err
	}
	return fmt.Errorf("%w; if the container has an AppArmor profile of type Localhost, add the rule \"signal (receive) "+
		"peer=unconfined,\" to it, "+
		"and load it with apparmor_parser -r: the next attempt then stops the container", err)
}
