package rollout

import (
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// minReady is how long no container may fail after a revision became Ready before the
// revision counts as good: without a readiness probe a container is Ready in the moment
// before it crashes.
const minReady = 10 * time.Second

// seen is what Observe saw of the revision in effect.
type seen struct {
	// readyAt is when it became Ready, or succeeded, after the last failure of a
	// container; zero if it has not. A status that is not Ready does not reset it.
	readyAt time.Time
	// failures are those of containers in the newest status.
	failures int32
	// returned: it was in effect when this daemon started. seenAt is when it was then
	// first observed to have started.
	returned bool
	seenAt   time.Time
}

// observe takes a status, and reports whether it may prove the revision. The
// Controller's mu is held.
func (p *progress) observe(st *v1.PodStatus, now time.Time) bool {
	p.status = st
	if p.returned && p.seenAt.IsZero() && st.StartTime != nil {
		p.seenAt = now
	}
	failures := failuresIn(st)
	if failures > p.failures {
		p.readyAt = time.Time{}
	}
	p.failures = failures
	if p.good || !p.readyAt.IsZero() || !wasGood(st) {
		return false
	}
	p.readyAt = now
	return true
}

// onTrial reports whether the revision in effect has to stay without a failure for
// minReady: if another one would replace it otherwise. mu is held.
func (c *Controller) onTrial(r *podRollout) bool {
	return c.judged(r) && r.state != RolledBack && r.status != nil && r.status.Phase != v1.PodSucceeded
}

// provenAt returns when the revision in effect is good unless it fails; zero if it is good
// already, or was not Ready. mu is held.
func (c *Controller) provenAt(r *podRollout) time.Time {
	switch {
	case r.good || r.readyAt.IsZero():
		return time.Time{}
	case c.onTrial(r):
		return r.readyAt.Add(minReady)
	}
	return r.readyAt
}

// setGood notes that the revision in effect works. mu is held.
func (r *podRollout) setGood() {
	r.good, r.stuck = true, nil
	r.lastGood = r.current
	r.history = r.history.mark(r.current.id, func(e *entry) { e.Ready = true })
}

// failuresIn counts the failures of containers that a status shows.
func failuresIn(st *v1.PodStatus) (n int32) {
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range list {
			if exitedBadly(&list[i].LastTerminationState) {
				n += list[i].RestartCount
			}
			if exitedBadly(&list[i].State) {
				n++
			}
		}
	}
	return n
}

// exitedBadly reports whether a container ended with another exit code than 0. One that
// exits with 0 and is started again does its work.
func exitedBadly(state *v1.ContainerState) bool {
	return state.Terminated != nil && state.Terminated.ExitCode != 0
}

// probeTime is how long it takes until a pod that works is Ready when the daemon that
// probes it returns.
func probeTime(pod *v1.Pod) time.Duration {
	longest := time.Duration(0)
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		seconds := int32(0)
		for _, probe := range []*v1.Probe{c.StartupProbe, c.ReadinessProbe} {
			if probe != nil {
				seconds += probe.PeriodSeconds*max(probe.SuccessThreshold, 1) + probe.TimeoutSeconds
			}
		}
		longest = max(longest, time.Duration(seconds)*time.Second)
	}
	return longest + probeMargin
}

// probeMargin is added to the time of probes, which start one after the other.
const probeMargin = 5 * time.Second
