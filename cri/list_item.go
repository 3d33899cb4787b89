package cri

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// identity is the UID, name and namespace of the pod that an object belongs to.
type identity struct {
	uid             types.UID
	name, namespace string
}

// identify reads a sandbox's identity from its labels. If another client set
// none, it uses the metadata that CRI requires: a pod of the same name must be
// found whichever client runs it.
func identify(s *runtimeapi.PodSandbox) identity {
	if uid := s.Labels[LabelPodUID]; uid != "" {
		return identity{types.UID(uid), s.Labels[LabelPodName], s.Labels[LabelPodNamespace]}
	}
	m := s.GetMetadata()
	return identity{types.UID(m.GetUid()), m.GetName(), m.GetNamespace()}
}

func observedSandbox(s *runtimeapi.PodSandbox, own bool) Sandbox {
	seen := Sandbox{
		ID:        s.Id,
		Attempt:   s.GetMetadata().GetAttempt(),
		Ready:     s.State == runtimeapi.PodSandboxState_SANDBOX_READY,
		CreatedAt: nanoTime(s.CreatedAt),
	}
	if own {
		seen.Annotations, seen.Labels, seen.RuntimeHandler = s.Annotations, s.Labels, s.RuntimeHandler
	}
	return seen
}

func observedContainer(k *runtimeapi.Container, own bool) Container {
	seen := Container{
		ID:        k.Id,
		Name:      containerName(k.Labels, k.GetMetadata()),
		SandboxID: k.PodSandboxId,
		State:     containerState(k.State),
		CreatedAt: nanoTime(k.CreatedAt),
	}
	if !own {
		// The number in its name.
		seen.RestartCount = int(k.GetMetadata().GetAttempt())
		return seen
	}
	seen.Image = k.GetImage().GetImage()
	seen.ImageRef = k.ImageRef
	recoverIdentity(&seen, k.Annotations, k.GetMetadata())
	return seen
}

func containerName(labels map[string]string, m *runtimeapi.ContainerMetadata) string {
	if name := labels[LabelContainerName]; name != "" {
		return name
	}
	return m.GetName()
}

// recoverIdentity reads what this package wrote into a container's annotations at
// creation. A value that cannot be parsed stays zero: that loses a detail, never
// the pod.
func recoverIdentity(c *Container, annotations map[string]string, m *runtimeapi.ContainerMetadata) {
	c.Hash = annotations[AnnotationContainerHash]
	c.Resources = parseResources(annotations[AnnotationResources])
	c.RestartCount = int(m.GetAttempt())
	if n, err := strconv.Atoi(annotations[AnnotationRestartCount]); err == nil && n >= 0 {
		c.RestartCount = n
	}
	if n, err := strconv.ParseInt(annotations[AnnotationTerminationGracePeriod], 10, 64); err == nil {
		c.TerminationGracePeriod = &n
	}
	recoverHooks(c, annotations)
	c.TerminationMessagePath = annotations[AnnotationTerminationMessagePath]
	c.TerminationMessageHost = annotations[AnnotationTerminationMessageHost]
	c.Objects = annotations[AnnotationObjects]
	c.TerminationPolicy = v1.TerminationMessagePolicy(annotations[AnnotationTerminationPolicy])
}

// sortSandboxes puts the newest first. It compares attempts, which this package
// counts, before times, because the clock of a board without a battery jumps; the
// kubelet compares times only.
func sortSandboxes(s []Sandbox) {
	if len(s) < 2 {
		return
	}
	slices.SortFunc(s, func(a, b Sandbox) int {
		return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}

// sortContainers puts the newest first, within each name as for sandboxes.
func sortContainers(c []Container) {
	if len(c) < 2 {
		return
	}
	slices.SortFunc(c, func(a, b Container) int {
		return cmp.Or(cmp.Compare(b.RestartCount, a.RestartCount), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}

func containerState(s runtimeapi.ContainerState) State {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return StateCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return StateRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return StateExited
	}
	return StateUnknown
}

// nanoTime converts CRI's nanoseconds to a time; 0 means "not yet" and gives the
// zero time.
func nanoTime(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
