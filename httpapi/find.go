package httpapi

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// maxNames is how many names an answer to a wrong one lists.
const maxNames = 20

// findPod finds a pod by its name or by the one in its manifest. Of two
// revisions the one that is not ending is meant.
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
	return nil, fmt.Errorf("no pod %q in namespace %q; %s", name, namespace, listNames(names))
}

func listNames(names []string) string {
	names = slices.Compact(names)
	switch {
	case len(names) == 0:
		return "there is none"
	case len(names) > maxNames:
		return fmt.Sprintf("there are %s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return "there is " + strings.Join(names, ", ")
}

// container is one container of a pod.
type container struct {
	name string
	// init says that it is an init container, once that it ends before the
	// others start.
	init, once bool
	// ephemeral: it was added to the pod that ran, and runs once.
	ephemeral bool
	// policy is its own restartPolicy, else the pod's.
	policy v1.RestartPolicy
	// ruled says that a rule of its own may start it again, all that a rule of
	// some container may start all of them.
	ruled, all bool
}

func findContainer(pod *v1.Pod, name string) (container, error) {
	var names []string
	all := slices.ContainsFunc(pod.Spec.InitContainers, restartsAll) || slices.ContainsFunc(pod.Spec.Containers, restartsAll)
	found := func(c *v1.Container) container {
		known := container{name: c.Name, policy: pod.Spec.RestartPolicy, ruled: len(c.RestartPolicyRules) > 0, all: all}
		if c.RestartPolicy != nil {
			known.policy = v1.RestartPolicy(*c.RestartPolicy)
		}
		return known
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == name {
			known := found(c)
			known.init, known.once = true, c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways
			return known, nil
		}
		names = append(names, c.Name)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name == name {
			return found(c), nil
		}
		names = append(names, c.Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if c.Name == name {
			return container{name: name, ephemeral: true, once: true, policy: v1.RestartPolicyNever}, nil
		}
		names = append(names, c.Name)
	}
	return container{}, fmt.Errorf("pod %q has no container %q; %s", pod.Name, name, listNames(names))
}

func restartsAll(c v1.Container) bool {
	return slices.ContainsFunc(c.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
		return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
	})
}

// status is that of the container, and whether there is one.
func (c container) status(st v1.PodStatus) (v1.ContainerStatus, bool) {
	list := st.ContainerStatuses
	switch {
	case c.init:
		list = st.InitContainerStatuses
	case c.ephemeral:
		list = st.EphemeralContainerStatuses
	}
	for _, s := range list {
		if s.Name == c.name {
			return s, true
		}
	}
	return v1.ContainerStatus{}, false
}

// endedIn says whether the container has ended and will not be started again
// by this revision of its pod.
func (c container) hasEnded(st v1.PodStatus) bool {
	if st.Phase == v1.PodSucceeded || st.Phase == v1.PodFailed {
		return true
	}
	s, _ := c.status(st)
	t := s.State.Terminated
	switch {
	case t == nil, c.all:
		return false
	case c.once && t.ExitCode == 0:
		return true
	case c.ruled:
		return false
	case c.once:
		return c.policy == v1.RestartPolicyNever
	case c.init:
		return false // a sidecar is started again under each policy
	}
	return c.policy == v1.RestartPolicyNever || c.policy == v1.RestartPolicyOnFailure && t.ExitCode == 0
}
