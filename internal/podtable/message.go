package podtable

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Message reports why the pod does not run or has ended. Errors of the container runtime are
// shortened to their cause; the status has them in full.
func Message(p *v1.Pod) string {
	if p.Status.Message != "" {
		return Shorten(p.Status.Message)
	}
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if m := containerMessage(p, &list[i]); m != "" {
				return m
			}
		}
	}
	return ""
}

// containerMessage reports why a container does not run. It is empty if the container runs, has
// not started yet, or has completed.
func containerMessage(p *v1.Pod, c *v1.ContainerStatus) string {
	if t := c.State.Terminated; t != nil && (t.ExitCode != 0 || t.Reason == "OOMKilled") {
		return termination(p, c, t)
	}
	if c.State.Waiting == nil || c.State.Waiting.Message == "" {
		return ""
	}
	message, t := c.State.Waiting.Message, c.LastTerminationState.Terminated
	if t == nil {
		return Cause(message)
	}
	if wait, _, crashed := strings.Cut(strings.TrimPrefix(message, "back-off "),
		" restarting failed container="); crashed {
		// Why it crashed is more than that it is restarted, which its state reports.
		return termination(p, c, t) + endsByItself(p, c) + "; back-off " + wait
	}
	if failedStart(t) {
		return Cause(message)
	}
	return Cause(message) + "; " + termination(p, c, t) + endsByItself(p, c)
}

// endsByItself explains what to do about a container that is restarted although it has completed:
// with the default restartPolicy it is taken for a server.
func endsByItself(p *v1.Pod, c *v1.ContainerStatus) string {
	t := c.LastTerminationState.Terminated
	if c.State.Waiting == nil || t == nil || t.ExitCode != 0 || t.Reason == "OOMKilled" ||
		p.Spec.RestartPolicy != v1.RestartPolicyAlways ||
		sidecars(p)[c.Name] || hasOwnPolicy(p, c.Name) {
		return ""
	}
	return "; if it is to end by itself, use restartPolicy OnFailure or Never"
}

// hasOwnPolicy reports whether the container has a restartPolicy of its own.
func hasOwnPolicy(p *v1.Pod, name string) bool {
	c := podinfo.FindContainer(&p.Spec, name)
	return c != nil && c.RestartPolicy != nil
}

// termination describes how a container ended, with its termination message or the last line
// of its log if there is one, and what to do where that is known.
func termination(p *v1.Pod, c *v1.ContainerStatus, t *v1.ContainerStateTerminated) string {
	text := fmt.Sprintf("%s ended with code %d", c.Name, t.ExitCode)
	if t.ExitCode == 0 && t.Reason == "OOMKilled" {
		// The kernel killed another process of the container than the main one.
		text = "a process of " + c.Name + " was killed"
	}
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		text += " (" + t.Reason + ")"
	}
	spec := podinfo.FindContainer(&p.Spec, c.Name)
	switch {
	case t.Reason == "OOMKilled":
		text += ": " + outOfMemory(p, spec)
	case failedStart(t):
		text += ": " + Cause(t.Message)
	case t.Message != "":
		text += ": " + t.Message + advice(p, spec, t)
	}
	return text
}

// failedStart reports whether the runtime could not start the program.
func failedStart(t *v1.ContainerStateTerminated) bool {
	return t.Reason == "StartError" || t.Reason == "ContainerCannotRun"
}

// outOfMemory reports which limit a container exceeded.
func outOfMemory(p *v1.Pod, spec *v1.Container) string {
	if spec != nil {
		if limit, ok := spec.Resources.Limits[v1.ResourceMemory]; ok {
			return fmt.Sprintf("it exceeded its memory limit of %s; raise resources.limits.memory, or let the program use less",
				limit.String())
		}
	}
	if p.Spec.Resources != nil {
		if limit, ok := p.Spec.Resources.Limits[v1.ResourceMemory]; ok {
			return fmt.Sprintf("its pod exceeded the memory limit of %s; raise spec.resources.limits.memory, or let the "+
				"programs use less", limit.String())
		}
	}
	return "the node ran out of memory; set resources.limits.memory of the pods, or add memory"
}

// advice returns what to do about a failure that a program reports in its last words, if its
// manifest is the cause.
func advice(p *v1.Pod, spec *v1.Container, t *v1.ContainerStateTerminated) string {
	message := strings.ToLower(t.Message)
	switch {
	case strings.Contains(message, "read-only file system") && spec != nil && spec.SecurityContext != nil &&
		isSet(spec.SecurityContext.ReadOnlyRootFilesystem):
		return "; readOnlyRootFilesystem is true: mount an emptyDir volume where the program writes"
	case strings.Contains(message, "address already in use") && p.Spec.HostNetwork:
		return "; the pod uses the host network, and a process of the host has the port: stop it, or change the port"
	case strings.Contains(message, "address already in use"):
		return "; another process or container of the pod has the port: change the port"
	case strings.Contains(message, "permission denied") && runsAsOther(p, spec):
		return "; the container does not run as root: give its user access (fsGroup for volumes), or change runAsUser"
	case strings.Contains(message, "exec format error"):
		return "; the program is built for another architecture: use an image for that of this node"
	}
	return ""
}

// runsAsOther reports whether the manifest makes a container run as another user than root.
func runsAsOther(p *v1.Pod, spec *v1.Container) bool {
	if spec != nil && spec.SecurityContext != nil && spec.SecurityContext.RunAsUser != nil {
		return *spec.SecurityContext.RunAsUser != 0
	}
	return p.Spec.SecurityContext != nil && p.Spec.SecurityContext.RunAsUser != nil &&
		*p.Spec.SecurityContext.RunAsUser != 0
}

func isSet(b *bool) bool { return b != nil && *b }

// conditionOutdated is true while containers run with the environment of a previous ConfigMap
// or Secret.
const conditionOutdated v1.PodConditionType = "podstead.io/EnvironmentOutdated"

// Outdated reports which containers run with the environment of a previous ConfigMap or Secret,
// and what to do; empty if none does.
func Outdated(p *v1.Pod) string {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == conditionOutdated && c.Status == v1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}
