package cri

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// planKills kills what must not run: second instances, containers that are not in
// the spec, and those in unknown state.
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

// planRegular plans the regular containers. If none is kept or started, the pod
// has ended.
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
			// The code with which it exits decides.
			kept++
		}
		a.Kill = append(a.Kill, *kill)
	}
	if kept == 0 && len(a.Start) == 0 {
		a.KillPod = true
	}
}

// killDecision decides whether a running container is killed, and if so whether
// it restarts. A changed definition restarts it whatever the policy.
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

// definitionChanged reports whether a running container was created from another
// definition, without its resources if they were recorded. A container without a
// hash does not say, and is not killed on a guess.
func definitionChanged(spec *v1.Container, c *Container) bool {
	if c.Resources != nil && c.Hash != "" {
		return c.Hash != hashOf(spec, *c.Resources)
	}
	return outdated(spec, c)
}

// outdated is definitionChanged, resources included, for a container that does
// not run yet.
func outdated(spec *v1.Container, c *Container) bool {
	return c.Hash != "" && c.Hash != Hash(spec)
}
