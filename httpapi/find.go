package httpapi

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// maxNames is the maximum number of names that an error lists.
const maxNames = 20

// findPod finds a pod by its name or by the name in its manifest. Of two revisions it
// prefers the one that is not terminating.
func findPod(src Sources, namespace, name string) (*v1.Pod, error) {
	var found *v1.Pod
	var names []string
	for _, p := range src.Pods.Pods() {
		if p.Namespace != namespace {
			continue
		}
		base := src.ManifestName(p)
		names = append(names, base)
		if (name == p.Name || name == base) && (found == nil || found.DeletionTimestamp != nil) {
			found = p
		}
	}
	if found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("pod %q not found in namespace %q; %s", name, namespace, listNames("pods", names))
}

// listNames lists what exists, for an error about what does not.
func listNames(what string, names []string) string {
	names = slices.Compact(names)
	switch {
	case len(names) == 0:
		return "there are no " + what
	case len(names) > maxNames:
		return fmt.Sprintf("%s: %s and %d more", what, strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return what + ": " + strings.Join(names, ", ")
}

// container is a container of a pod, with what decides whether it restarts.
type container struct {
	spec *v1.Container
	// kind is the list in which the container is.
	kind podinfo.ContainerKinds
	// runsOnce is true for ephemeral containers, and for init containers that end before
	// the next container starts.
	runsOnce bool
	// policy is the container's own restartPolicy, else the pod's.
	policy v1.RestartPolicy
	// hasRules reports that a rule of the container may restart it, podRestarts that a rule
	// of any container may restart all of them.
	hasRules, podRestarts bool
}

func findContainer(pod *v1.Pod, name string) (container, error) {
	var names []string
	for _, kind := range []podinfo.ContainerKinds{podinfo.InitContainers, podinfo.RegularContainers,
		podinfo.EphemeralContainers} {
		for c := range podinfo.EachContainer(&pod.Spec, kind) {
			if c.Name == name {
				return containerOf(pod, c, kind), nil
			}
			names = append(names, c.Name)
		}
	}
	return container{}, fmt.Errorf("container %q not found in pod %q; %s", name, pod.Name, listNames("containers", names))
}

func containerOf(pod *v1.Pod, spec *v1.Container, kind podinfo.ContainerKinds) container {
	c := container{spec: spec, kind: kind, policy: pod.Spec.RestartPolicy, hasRules: len(spec.RestartPolicyRules) > 0}
	if kind == podinfo.EphemeralContainers {
		c.runsOnce, c.policy = true, v1.RestartPolicyNever
		return c
	}
	c.runsOnce = kind == podinfo.InitContainers && !podinfo.IsSidecar(spec)
	if spec.RestartPolicy != nil {
		c.policy = v1.RestartPolicy(*spec.RestartPolicy)
	}
	for other := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		c.podRestarts = c.podRestarts || slices.ContainsFunc(other.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return c
}

// status returns the status of the container, false if it has none yet.
func (c container) status(st v1.PodStatus) (v1.ContainerStatus, bool) {
	list := st.ContainerStatuses
	switch c.kind {
	case podinfo.InitContainers:
		list = st.InitContainerStatuses
	case podinfo.EphemeralContainers:
		list = st.EphemeralContainerStatuses
	}
	for _, s := range list {
		if s.Name == c.spec.Name {
			return s, true
		}
	}
	return v1.ContainerStatus{}, false
}

// hasEnded reports whether the container has terminated and this revision of its pod will
// not restart it.
func (c container) hasEnded(st v1.PodStatus) bool {
	if podinfo.IsTerminal(st.Phase) {
		return true
	}
	s, _ := c.status(st)
	t := s.State.Terminated
	switch {
	case t == nil, c.podRestarts:
		return false
	case c.runsOnce && t.ExitCode == 0:
		return true
	case c.hasRules:
		return false
	case c.runsOnce:
		return c.policy == v1.RestartPolicyNever
	case c.kind == podinfo.InitContainers:
		return false // a sidecar restarts under every policy
	}
	return c.policy == v1.RestartPolicyNever || c.policy == v1.RestartPolicyOnFailure && t.ExitCode == 0
}
