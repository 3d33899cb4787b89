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

// Hooks performs lifecycle hooks. It is called for several containers at the
// same time.
type Hooks interface {
	// Run performs a hook and returns when it has ended, at the latest with
	// ctx.
	Run(ctx context.Context, h Hook) error
}

// Hook is one postStart or preStop hook of a running container.
type Hook struct {
	Handler *v1.LifecycleHandler
	// ContainerID is the instance's, Name the container's.
	ContainerID string
	Name        string
	Ports       []v1.ContainerPort
	// IP is what HTTP and TCP hooks ask unless they name a host: the pod's, on
	// the host's network the node's. Empty if there is none.
	IP string
}

// Reasons of events and waiting, the kubelet's.
const (
	reasonPostStart       = "PostStartHookError"
	reasonFailedPostStart = "FailedPostStartHook"
	reasonFailedPreStop   = "FailedPreStopHook"
)

// loopback is where hooks of a pod on the host's network ask while no address
// of the node is known.
const loopback = "127.0.0.1"

// noHooks fails each hook, so that none is left out without a word.
type noHooks struct{}

func (noHooks) Run(context.Context, Hook) error { return errors.New("no hook runner is configured") }

// postStart performs the hook of a container that has been started. Until it
// returns the container does not count as started; if it fails the container
// is ended, and what its restartPolicy says follows.
func (t *transaction) postStart(ctx context.Context, c *v1.Container, id string) error {
	if !hasPostStart(c) {
		return nil
	}
	err := t.runHook(ctx, Hook{Handler: c.Lifecycle.PostStart, ContainerID: id, Name: c.Name, Ports: c.Ports, IP: t.hookIP()})
	switch {
	case err == nil:
		if t.result.PostStartDone == nil {
			t.result.PostStartDone = map[string]string{}
		}
		t.result.PostStartDone[c.Name] = id
		return nil
	case ctx.Err() != nil:
		// It was not the hook that failed. The next Sync performs it again.
		return err
	}
	message := fmt.Sprintf("postStart hook of container %s failed: %s", c.Name, detail(err))
	t.events.Event(t.Pod, v1.EventTypeWarning, reasonFailedPostStart, message)
	t.result.Acted = true
	grace := t.grace()
	killErr := errors.Join(t.killContainers(ctx, t.killContext(t.startedPod(c, id)), []Kill{{
		ID: id, Name: c.Name, Message: fmt.Sprintf("Stopping container %s: postStart hook failed", c.Name), Grace: &grace,
	}})...)
	return &waitError{Waiting: Waiting{reasonPostStart, message}, cause: errors.Join(err, killErr)}
}

func hasPostStart(c *v1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.PostStart != nil }

// unhooked is the running instance of a container whose postStart hook is not
// known to have returned, nil if there is none: the daemon was restarted
// meanwhile, the Sync was given up, or the answer to the start was lost. The
// kubelet does not perform the hook again; here a container that runs for long
// without what its hook had to do is not taken for one that has started.
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

// launched is a container of this pod as the next look will show it.
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

// hookIP is where the hooks of the pod's containers ask.
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

// hookAnnotations keep with a container what its end needs, so that it is
// ended well also when its manifest is gone.
func hookAnnotations(annotations map[string]string, pod *v1.Pod, c *v1.Container) {
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		if text, err := json.Marshal(c.Lifecycle.PreStop); err == nil {
			annotations[AnnotationPreStop] = string(text)
		}
	}
	for i := range pod.Spec.InitContainers {
		if init := &pod.Spec.InitContainers[i]; init.Name == c.Name && podinfo.IsSidecar(init) {
			annotations[AnnotationSidecar] = strconv.Itoa(i)
		}
	}
}

// recoverHooks reads what hookAnnotations wrote.
func recoverHooks(c *Container, annotations map[string]string) {
	if text := annotations[AnnotationPreStop]; text != "" {
		h := &v1.LifecycleHandler{}
		if err := json.Unmarshal([]byte(text), h); err == nil {
			c.PreStop = h
		}
		if text := annotations[annotationPorts]; text != "" {
			// Ports that cannot be read leave the hook to fail by the name.
			_ = json.Unmarshal([]byte(text), &c.Ports)
		}
	}
	if i, err := strconv.Atoi(annotations[AnnotationSidecar]); err == nil && i >= 0 {
		c.Sidecar = i + 1
	}
}
