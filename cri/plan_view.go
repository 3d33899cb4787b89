package cri

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// view is what Plan sees of a pod: the input, sorted by what it asks.
type view struct {
	PlanInput
	// sandbox is the newest one, nil if there is none.
	sandbox *Sandbox
	// ready counts the sandboxes that are ready.
	ready int
	// running has, by container name, the newest instance that runs in the
	// newest sandbox. All other running ones are surplus.
	running map[string]*Container
	// last has, by container name and whatever the sandbox, the newest
	// instance that was ever started: restart rules look at it.
	last map[string]*Container
}

func newView(in PlanInput) *view {
	if in.Status == nil {
		in.Status = &PodStatus{}
	}
	v := &view{PlanInput: in, running: map[string]*Container{}, last: map[string]*Container{}}
	for i := range in.Status.Sandboxes {
		s := &in.Status.Sandboxes[i]
		if v.sandbox == nil || s.Attempt > v.sandbox.Attempt {
			v.sandbox = s
		}
		if s.Ready {
			v.ready++
		}
	}
	for i := range in.Status.Containers {
		c := &in.Status.Containers[i]
		if c.State == StateCreated {
			continue
		}
		if v.last[c.Name] == nil {
			v.last[c.Name] = c
		}
		if c.State == StateRunning && v.here(c) && v.running[c.Name] == nil {
			v.running[c.Name] = c
		}
	}
	return v
}

// here reports whether a container is in the newest sandbox.
func (v *view) here(c *Container) bool {
	return v.sandbox != nil && c.SandboxID == v.sandbox.ID
}

// newestHere is the newest instance of a container in the newest sandbox.
func (v *view) newestHere(name string) *Container {
	for i := range v.Status.Containers {
		if c := &v.Status.Containers[i]; c.Name == name && v.here(c) {
			return c
		}
	}
	return nil
}

// spec is the wanted definition of a container, nil if the pod has none.
func (v *view) spec(name string) *v1.Container {
	named := func(c v1.Container) bool { return c.Name == name }
	if i := slices.IndexFunc(v.Pod.Spec.Containers, named); i >= 0 {
		return &v.Pod.Spec.Containers[i]
	}
	if v.isInit(name) {
		i := slices.IndexFunc(v.Pod.Spec.InitContainers, named)
		return &v.Pod.Spec.InitContainers[i]
	}
	return nil
}

func (v *view) isInit(name string) bool {
	return slices.ContainsFunc(v.Pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == name })
}

// never reports whether the pod's policy restarts nothing.
func (v *view) never() bool { return v.Pod.Spec.RestartPolicy == v1.RestartPolicyNever }

// wanted reports whether a container that does not run is to be started. One
// in an unknown state is, whatever the policy, as with the kubelet.
func (v *view) wanted(name string) bool {
	last := v.last[name]
	switch {
	case v.Pod.DeletionTimestamp != nil:
		return false
	case last == nil, last.State == StateUnknown:
		return true
	case v.never():
		return false
	case v.Pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure:
		return !succeeded(last)
	}
	return true
}

func succeeded(c *Container) bool { return c.State == StateExited && c.ExitCode == 0 }
