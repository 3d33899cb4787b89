package cri

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// ExitAction is what the pod's policies do about a container that exited.
type ExitAction uint8

// The actions. The zero value is NoRestart.
const (
	// NoRestart: the container is not started again.
	NoRestart ExitAction = iota
	// RestartContainer: the container is started again.
	RestartContainer
	// RestartAllContainers: every container of the pod is terminated, and all
	// start again, init containers first.
	RestartAllContainers
)

// unknownExitCode is the exit code of a container whose end was not observed, and
// of one that is about to be killed: 128 + SIGKILL.
const unknownExitCode = 137

// OnExit returns what to do about a container that exited with a code. The first
// of its own restartPolicyRules that matches decides, then its own restartPolicy,
// then the pod's. Callers ask about init containers that run to completion only
// when they have failed.
func OnExit(pod *v1.Pod, c *v1.Container, exitCode int32) ExitAction {
	if c.RestartPolicy == nil {
		return byPolicy(pod.Spec.RestartPolicy, exitCode)
	}
	for i := range c.RestartPolicyRules {
		rule := &c.RestartPolicyRules[i]
		if !matches(rule.ExitCodes, exitCode) {
			continue
		}
		switch rule.Action {
		case v1.ContainerRestartRuleActionRestart:
			return RestartContainer
		case v1.ContainerRestartRuleActionRestartAllContainers:
			return RestartAllContainers
		}
	}
	return byPolicy(v1.RestartPolicy(*c.RestartPolicy), exitCode)
}

func byPolicy(policy v1.RestartPolicy, exitCode int32) ExitAction {
	if policy == v1.RestartPolicyNever || policy == v1.RestartPolicyOnFailure && exitCode == 0 {
		return NoRestart
	}
	return RestartContainer
}

func matches(codes *v1.ContainerRestartRuleOnExitCodes, exitCode int32) bool {
	if codes == nil {
		return false
	}
	listed := slices.Contains(codes.Values, exitCode)
	switch codes.Operator {
	case v1.ContainerRestartRuleOnExitCodesOpIn:
		return listed
	case v1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !listed
	}
	return false
}

// neverRestarts reports whether a container that is killed for a probe is not
// started again. Its rules do not apply: they are about codes with which it
// exits.
func neverRestarts(pod *v1.Pod, c *v1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy == v1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy == v1.RestartPolicyNever
}

// MayRestartAll reports whether a container of the pod has a rule that
// restarts all of them.
func MayRestartAll(pod *v1.Pod) bool {
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		if slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		}) {
			return true
		}
	}
	return false
}

// RestartTriggers returns the exited instances that, by one of their rules,
// require a restart of all containers of the pod: at most the newest one of each
// container, in the order of the spec, init containers first. They are removed
// last, so that if none is left, that restart is not half done.
func RestartTriggers(pod *v1.Pod, s *PodStatus) []*Container {
	if s == nil || pod.DeletionTimestamp != nil || !MayRestartAll(pod) {
		return nil
	}
	var triggers []*Container
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		last := newestStarted(s, c.Name)
		runsToCompletion := isInit(pod, c.Name) && !podinfo.IsSidecar(c)
		if last == nil || last.State != StateExited || runsToCompletion && !initFailed(last) {
			continue
		}
		if OnExit(pod, c, last.ExitCode) == RestartAllContainers {
			triggers = append(triggers, last)
		}
	}
	return triggers
}

// newestStarted returns the newest instance of a container that was ever started,
// or nil.
func newestStarted(s *PodStatus, name string) *Container {
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Name == name && c.State != StateCreated {
			return c
		}
	}
	return nil
}
