package cri

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// annotationSource is the kubelet's key for the source of a pod.
const annotationSource = "kubernetes.io/config.source"

// List asks the runtime for all sandboxes and containers, in two calls, and
// groups them into pods. Containers are asked for first, so that a container
// is not shown without the sandbox that was made before it.
func (c *Client) List(ctx context.Context) (*Observed, error) {
	at := time.Now()
	containers, err := c.listContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	sandboxes, err := c.listSandboxes(ctx, nil)
	if err != nil {
		return nil, err
	}
	return group(c.instance, sandboxes, containers, at), nil
}

func (c *Client) listContainers(ctx context.Context, labels map[string]string) ([]*runtimeapi.Container, error) {
	request := &runtimeapi.ListContainersRequest{}
	if labels != nil {
		request.Filter = &runtimeapi.ContainerFilter{LabelSelector: labels}
	}
	a, err := read(ctx, c, operation{verb: "list containers"}, runtimeapi.RuntimeServiceClient.ListContainers, request)
	return a.GetContainers(), err
}

func (c *Client) listSandboxes(ctx context.Context, labels map[string]string) ([]*runtimeapi.PodSandbox, error) {
	request := &runtimeapi.ListPodSandboxRequest{}
	if labels != nil {
		request.Filter = &runtimeapi.PodSandboxFilter{LabelSelector: labels}
	}
	a, err := read(ctx, c, operation{verb: "list pod sandboxes"}, runtimeapi.RuntimeServiceClient.ListPodSandbox, request)
	return a.GetItems(), err
}

// podKey tells pods apart: should another client use a UID of ours, its pod
// is still not ours.
type podKey struct {
	uid types.UID
	own bool
}

func group(instance string, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container, at time.Time) *Observed {
	o := &Observed{At: at}
	pods := make(map[podKey]*Pod, len(sandboxes))
	pod := func(key podKey, name, namespace string) *Pod {
		p := pods[key]
		if p == nil {
			p = &Pod{UID: key.uid, Name: name, Namespace: namespace}
			pods[key] = p
			if key.own {
				o.Own = append(o.Own, p)
			} else {
				o.Foreign = append(o.Foreign, p)
			}
		}
		return p
	}
	for _, s := range sandboxes {
		id := identify(s)
		if id.uid == "" {
			continue
		}
		key := podKey{id.uid, instance != "" && s.Labels[LabelInstance] == instance}
		p := pod(key, id.name, id.namespace)
		p.Sandboxes = append(p.Sandboxes, observedSandbox(s, key.own))
	}
	for _, k := range containers {
		uid := types.UID(k.Labels[LabelPodUID])
		if uid == "" {
			continue
		}
		key := podKey{uid, instance != "" && k.Labels[LabelInstance] == instance}
		p := pod(key, k.Labels[LabelPodName], k.Labels[LabelPodNamespace])
		p.Containers = append(p.Containers, observedContainer(k, key.own))
	}
	for _, p := range o.Own {
		settle(p)
	}
	for _, p := range o.Foreign {
		settle(p)
	}
	return o
}

// identity is whose a sandbox is.
type identity struct {
	uid             types.UID
	name, namespace string
}

// identify reads a sandbox's identity from its labels, and where another
// client set none, from the metadata that CRI demands: a pod of the same name
// must be seen whoever runs it.
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
		seen.Annotations = s.Annotations
	}
	return seen
}

func observedContainer(k *runtimeapi.Container, own bool) Container {
	seen := Container{
		ID:        k.Id,
		Name:      containerName(k.Labels, k.GetMetadata()),
		SandboxID: k.PodSandboxId,
		State:     state(k.State),
		CreatedAt: nanoTime(k.CreatedAt),
	}
	if !own {
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

// recoverIdentity reads what this package wrote into a container's
// annotations when it was made. What cannot be read is left at zero: it costs
// a detail, never the pod.
func recoverIdentity(c *Container, annotations map[string]string, m *runtimeapi.ContainerMetadata) {
	c.Hash = annotations[AnnotationContainerHash]
	c.RestartCount = int(m.GetAttempt())
	if n, err := strconv.Atoi(annotations[AnnotationRestartCount]); err == nil && n >= 0 {
		c.RestartCount = n
	}
	if n, err := strconv.ParseInt(annotations[AnnotationTerminationGracePeriod], 10, 64); err == nil {
		c.TerminationGracePeriod = &n
	}
	c.TerminationMessagePath = annotations[AnnotationTerminationMessagePath]
	c.TerminationMessageHost = annotations[AnnotationTerminationMessageHost]
	c.TerminationPolicy = v1.TerminationMessagePolicy(annotations[AnnotationTerminationPolicy])
}

// settle puts a pod's parts in order and fills what the newest one tells.
func settle(p *Pod) {
	sortSandboxes(p.Sandboxes)
	sortContainers(p.Containers)
	if len(p.Sandboxes) > 0 {
		p.Source = p.Sandboxes[0].Annotations[annotationSource]
	}
}

// sortSandboxes puts the newest first. Attempts are counted by us and so come
// before the time, which jumps on a board without a clock; the kubelet looks
// at the time only.
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

func state(s runtimeapi.ContainerState) State {
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

// nanoTime turns CRI's nanoseconds into a time; 0 is "not yet".
func nanoTime(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
