package cri

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// killUnwanted ends what must not run beside what is wanted: second instances,
// containers that the pod does not have, and those of which the runtime does
// not know whether they run.
func (v *planner) planKills(a *Actions) {
	for i := range v.Status.Containers {
		c := &v.Status.Containers[i]
		switch {
		case c.State == StateUnknown:
			a.Kill = append(a.Kill, Kill{ID: c.ID, Name: c.Name, Reason: KillUnknown,
				Message: fmt.Sprintf("Container %s is in unknown state, it will be killed before it is restarted", c.Name)})
		case c.State != StateRunning:
		case v.spec(c.Name) == nil:
			a.Kill = append(a.Kill, Kill{ID: c.ID, Name: c.Name, Reason: KillSurplus,
				Message: fmt.Sprintf("Container %s is not in the pod's spec", c.Name)})
		case v.running[c.Name] != c:
			a.Kill = append(a.Kill, Kill{ID: c.ID, Name: c.Name, Reason: KillSurplus,
				Message: fmt.Sprintf("Container %s runs twice, the older instance will be killed", c.Name)})
		}
	}
}

// startRegular plans the regular containers. With nothing to keep and nothing
// to start, the pod has ended.
func (v *planner) planRegular(a *Actions) {
	kept := 0
	for i := range v.Pod.Spec.Containers {
		spec := &v.Pod.Spec.Containers[i]
		running := v.running[spec.Name]
		if running == nil {
			if v.shouldStart(spec) {
				a.Start = append(a.Start, i)
			}
			continue
		}
		kill, restart := v.killDecision(spec, running)
		if kill == nil {
			kept++
			continue
		}
		switch {
		case restart:
			kill.Message += ", will be restarted"
			a.Start = append(a.Start, i)
		case len(spec.RestartPolicyRules) > 0:
			// The code with which it will have exited decides.
			kept++
		}
		a.Kill = append(a.Kill, *kill)
	}
	if kept == 0 && len(a.Start) == 0 {
		a.KillPod = true
	}
}

// judge decides whether a running container has to go, and if so whether it
// comes back. A changed definition restarts it whatever the policy.
func (v *planner) killDecision(spec *v1.Container, c *Container) (kill *Kill, restart bool) {
	kill = &Kill{ID: c.ID, Name: c.Name}
	failed := v.FailedProbes[c.ID]
	resize := v.resizeOf(c)
	switch {
	case definitionChanged(spec, c):
		kill.Reason = KillChanged
		kill.Message = fmt.Sprintf("Container %s definition changed", c.Name)
		return kill, true
	case v.ChangedObjects[c.ID] != "":
		kill.Reason = KillChanged
		kill.Message = fmt.Sprintf("Container %s was created from another %s", c.Name, v.ChangedObjects[c.ID])
		return kill, true
	case resize != nil && resize.Restart:
		kill.Reason = KillResize
		kill.Message = fmt.Sprintf("Container %s has changed resources and a resizePolicy that requires a restart", c.Name)
		return kill, true
	case failed == KillLiveness:
		kill.Message = fmt.Sprintf("Container %s failed liveness probe", c.Name)
		kill.Grace = probeGrace(spec.LivenessProbe)
	case failed == KillStartup:
		kill.Message = fmt.Sprintf("Container %s failed startup probe", c.Name)
		kill.Grace = probeGrace(spec.StartupProbe)
	default:
		return nil, false
	}
	kill.Reason = failed
	return kill, !neverRestarts(v.Pod, spec)
}

func probeGrace(p *v1.Probe) *int64 {
	if p == nil {
		return nil
	}
	return p.TerminationGracePeriodSeconds
}

// changed reports whether a running container was made from another definition,
// its resources aside if they were written down. One without a hash cannot
// tell, and what runs is not ended on a guess.
func definitionChanged(spec *v1.Container, c *Container) bool {
	if c.Resources != nil && c.Hash != "" {
		return c.Hash != hashOf(spec, *c.Resources)
	}
	return outdated(spec, c)
}

// outdated reports the same with the resources, for one that does not run yet.
func outdated(spec *v1.Container, c *Container) bool {
	return c.Hash != "" && c.Hash != Hash(spec)
}
