package cri

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// planner is the state of one Plan: the input, indexed.
type planner struct {
	PlanInput
	// sandbox is the newest one, nil if there is none.
	sandbox *Sandbox
	// running has, by container name, the newest instance that runs in the newest
	// sandbox. All other running instances are surplus.
	running map[string]*Container
	// last has, by container name and in any sandbox, the newest instance that
	// was ever started: restart rules use it.
	last map[string]*Container
}

func newPlanner(in PlanInput) *planner {
	if in.Status == nil {
		in.Status = &PodStatus{}
	}
	v := &planner{PlanInput: in, sandbox: in.Status.newestSandbox(), running: map[string]*Container{},
		last: map[string]*Container{}}
	for i := range in.Status.Containers {
		c := &in.Status.Containers[i]
		if c.State == StateCreated {
			continue
		}
		if v.last[c.Name] == nil {
			v.last[c.Name] = c
		}
		if c.State == StateRunning && v.inNewestSandbox(c) && v.running[c.Name] == nil {
			v.running[c.Name] = c
		}
	}
	return v
}

// inNewestSandbox reports whether a container is in the newest sandbox.
func (v *planner) inNewestSandbox(c *Container) bool {
	return v.sandbox != nil && c.SandboxID == v.sandbox.ID
}

// newestInSandbox returns the newest instance of a container in the newest
// sandbox.
func (v *planner) newestInSandbox(name string) *Container {
	for i := range v.Status.Containers {
		if c := &v.Status.Containers[i]; c.Name == name && v.inNewestSandbox(c) {
			return c
		}
	}
	return nil
}

// spec is the desired definition of a container, nil if the pod has none.
func (v *planner) spec(name string) *v1.Container { return specOf(v.Pod, name) }

func specOf(pod *v1.Pod, name string) *v1.Container { return podinfo.FindContainer(&pod.Spec, name) }

// isInit reports whether a name is that of an init container, sidecars included.
func isInit(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == name })
}

// shouldStart reports whether a regular container that does not run is started. A
// container in unknown state is, whatever the policy, as with the kubelet, and so
// is one with a newly created instance: its restart was decided already.
func (v *planner) shouldStart(spec *v1.Container) bool {
	last := v.last[spec.Name]
	switch {
	case v.Pod.DeletionTimestamp != nil:
		return false
	case last == nil, last.State == StateUnknown, v.createdNotStarted(spec.Name):
		return true
	}
	return v.Restarting[spec.Name] == last.ID || OnExit(v.Pod, spec, exitCode(last)) != NoRestart
}

// createdNotStarted reports whether the newest instance of a container was
// created and never started.
func (v *planner) createdNotStarted(name string) bool {
	newest := v.Status.Newest(name)
	return newest != nil && newest.State == StateCreated
}

// started reports whether a running container has started according to its
// startup probe.
func (v *planner) started(spec *v1.Container, c *Container) bool {
	return spec.StartupProbe == nil || v.Started == nil || v.Started[c.ID]
}

// exitCode returns that of an instance that has exited or is about to be killed.
func exitCode(c *Container) int32 {
	if c.State == StateExited {
		return c.ExitCode
	}
	return unknownExitCode
}
