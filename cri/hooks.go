package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Hooks runs lifecycle hooks. It is called for several containers concurrently.
type Hooks interface {
	// Run runs a hook and returns when it has ended, at the latest when ctx ends.
	Run(ctx context.Context, h Hook) error
}

// Hook is one postStart or preStop hook of a running container.
type Hook struct {
	Handler *v1.LifecycleHandler
	// ContainerID is the instance's, Name the container's.
	ContainerID string
	Name        string
	Ports       []v1.ContainerPort
	// IP is the address that HTTP and TCP hooks use unless they name a host: the
	// pod's, or the node's on the host's network. Empty if there is none.
	IP string
}

// Reasons of events and waiting, the kubelet's.
const (
	reasonPostStart       = "PostStartHookError"
	reasonFailedPostStart = "FailedPostStartHook"
	reasonFailedPreStop   = "FailedPreStopHook"
)

// loopback is the address for hooks of a pod on the host's network while the
// node's address is not known.
const loopback = "127.0.0.1"

// noHooks fails each hook, so that none is skipped silently.
type noHooks struct{}

func (noHooks) Run(context.Context, Hook) error { return errors.New("no hook runner is configured") }

// postStart runs the hook of a container that was started. The container does not
// count as started until the hook returns; if it fails, the container is killed
// and its restartPolicy applies.
func (t *transaction) postStart(ctx context.Context, c *v1.Container, id string) error {
	if !hasPostStart(c) {
		return nil
	}
	err := t.runHook(ctx, Hook{Handler: c.Lifecycle.PostStart, ContainerID: id, Name: c.Name, Ports: c.Ports,
		IP: t.hookIP()})
	switch {
	case err == nil:
		if t.result.PostStartDone == nil {
			t.result.PostStartDone = map[string]string{}
		}
		t.result.PostStartDone[c.Name] = id
		return nil
	case ctx.Err() != nil:
		// The hook did not fail. The next Sync runs it again.
		return err
	}
	message := fmt.Sprintf("PostStartHook failed: %s (container %s)", detail(err), c.Name)
	t.events.Event(t.Pod, v1.EventTypeWarning, reasonFailedPostStart, message)
	t.result.Acted = true
	grace := t.grace()
	killErr := errors.Join(t.killContainers(ctx, t.killContext(t.startedPod(c, id)), []Kill{{
		ID: id, Name: c.Name, Message: fmt.Sprintf("Stopping container %s: postStart hook failed", c.Name), Grace: &grace,
	}})...)
	return &waitError{Waiting: Waiting{reasonPostStart, message}, cause: errors.Join(err, killErr)}
}

func hasPostStart(c *v1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.PostStart != nil }

// missingPostStart returns the running instance of a container whose postStart
// hook is not known to have returned, nil if there is none: the daemon was
// restarted, the Sync was cancelled, or the reply to the start was lost. The
// kubelet does not run the hook again; here a container that lacks what its hook
// had to do does not count as started.
func (t *transaction) missingPostStart(c *v1.Container) *Container {
	if !hasPostStart(c) {
		return nil
	}
	for i := range t.Status.Containers {
		running := &t.Status.Containers[i]
		if running.Name != c.Name || running.State != StateRunning || running.SandboxID != t.actions.SandboxID {
			continue
		}
		if t.PostStartDone[c.Name] == running.ID || t.killed(running.ID) {
			return nil
		}
		return running
	}
	return nil
}

func (t *transaction) killed(id string) bool {
	for i := range t.actions.Kill {
		if t.actions.Kill[i].ID == id {
			return true
		}
	}
	return t.actions.KillPod
}

// startedPod returns a container of this pod as the next list will contain it.
func (t *transaction) startedPod(c *v1.Container, id string) *Pod {
	pod := &Pod{UID: t.Pod.UID, Name: t.Pod.Name, Namespace: t.Pod.Namespace}
	seen := Container{ID: id, Name: c.Name, SandboxID: t.actions.SandboxID, State: StateRunning, Ports: c.Ports}
	if c.Lifecycle != nil {
		seen.PreStop = c.Lifecycle.PreStop
	}
	pod.Containers = []Container{seen}
	pod.Sandboxes = []Sandbox{{ID: t.actions.SandboxID, HostNetwork: t.Pod.Spec.HostNetwork, IPs: t.podIPs}}
	return pod
}

// hookIP returns the address for the hooks of the pod's containers.
func (t *transaction) hookIP() string {
	return hookIP(t.Pod.Spec.HostNetwork, t.podIPs, t.HostIP)
}

func hookIP(hostNetwork bool, podIPs []string, hostIP string) string {
	switch {
	case hostNetwork && hostIP != "":
		return hostIP
	case hostNetwork:
		return loopback
	case len(podIPs) > 0:
		return podIPs[0]
	}
	return ""
}

// hookAnnotations stores what a container's termination needs, so that it is
// terminated correctly even if its manifest is gone. It returns what is left of the
// container's share for its ports.
func hookAnnotations(annotations map[string]string, pod *v1.Pod, c *v1.Container) (left int) {
	left = ShareOf(pod, maxPodRecovered)
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		if text, err := json.Marshal(c.Lifecycle.PreStop); err == nil && len(text) < min(left, maxRecovered) {
			annotations[AnnotationPreStop] = string(text)
			left -= len(text)
		}
	}
	for i := range pod.Spec.InitContainers {
		if init := &pod.Spec.InitContainers[i]; init.Name == c.Name && podinfo.IsSidecar(init) {
			annotations[AnnotationSidecar] = strconv.Itoa(i)
		}
	}
	return left
}

// withHook returns a container with its preStop hook. One that was too large to be stored with
// the container is in the pod's spec, unless the pod runs as another revision.
func (k *killContext) withHook(c *Container) *Container {
	spec := podinfo.FindContainer(&k.pod.Spec, c.Name)
	if c.PreStop != nil || spec == nil || spec.Lifecycle == nil || spec.Lifecycle.PreStop == nil {
		return c
	}
	for _, sandbox := range k.observed.Sandboxes {
		// The hooks of a pod that is updated in place never change, and its annotation, if it
		// has one, is its author's.
		if sandbox.ID == c.SandboxID && !podinfo.PolicyOf(k.pod).UpdatesInPlace &&
			sandbox.Annotations[podinfo.AnnotationTemplate] != k.pod.Annotations[podinfo.AnnotationTemplate] {
			return c
		}
	}
	with := *c
	with.PreStop, with.Ports = spec.Lifecycle.PreStop, spec.Ports
	return &with
}

// recoverHooks reads what hookAnnotations wrote.
func recoverHooks(c *Container, annotations map[string]string) {
	if text := annotations[AnnotationPreStop]; text != "" {
		h := &v1.LifecycleHandler{}
		if err := json.Unmarshal([]byte(text), h); err == nil {
			c.PreStop = h
		}
		if text := annotations[annotationPorts]; text != "" {
			// Without readable ports the hook fails on a port name.
			_ = json.Unmarshal([]byte(text), &c.Ports)
		}
	}
	if i, err := strconv.Atoi(annotations[AnnotationSidecar]); err == nil && i >= 0 {
		c.Sidecar = i + 1
	}
}
