package cri

import (
	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// reasonOOMKilled is the runtimes' reason for a container that ran out of memory.
// An init container may exit 0 with it and has failed nevertheless.
const reasonOOMKilled = "OOMKilled"

func initFailed(c *Container) bool { return c.ExitCode != 0 || c.Reason == reasonOOMKilled }

// pruneInit removes all exited instances of an init container except the newest,
// which shows how far the pod has come, and how a sidecar exited.
func (v *planner) pruneInit(a *Actions) {
	kept := map[string]bool{}
	for i := range v.Status.Containers {
		c := &v.Status.Containers[i]
		if c.State != StateExited || !isInit(v.Pod, c.Name) {
			continue
		}
		if kept[c.Name] {
			a.RemoveInit = append(a.RemoveInit, c.ID)
		}
		kept[c.Name] = true
	}
}

// planInit reports whether the regular containers may start. If not, it plans the
// next step towards that. Sidecars before that step are kept running in any case,
// and block nothing.
func (v *planner) planInit(a *Actions) bool {
	inits := v.Pod.Spec.InitContainers
	at := v.initProgress()
	for i := 0; i < at; i++ {
		if podinfo.IsSidecar(&inits[i]) {
			v.planSidecar(a, i)
		}
	}
	switch {
	case at == len(inits):
		return true
	case at < 0:
	case podinfo.IsSidecar(&inits[at]):
		if !v.planSidecar(a, at) {
			return false
		}
	case !v.planInitContainer(a, at):
		return false
	}
	if at+1 == len(inits) {
		return true
	}
	a.StartInit = append(a.StartInit, at+1)
	return false
}

// initProgress returns the index of the last init container with an instance in
// the newest sandbox, -1 if there is none: earlier ones are done, and may have
// been removed since. It is the number of init containers once a regular
// container has an instance, in whatever state: it would not exist if they were
// not done.
func (v *planner) initProgress() int {
	for i := range v.Pod.Spec.Containers {
		if v.newestInSandbox(v.Pod.Spec.Containers[i].Name) != nil {
			return len(v.Pod.Spec.InitContainers)
		}
	}
	for i := len(v.Pod.Spec.InitContainers) - 1; i >= 0; i-- {
		if v.newestInSandbox(v.Pod.Spec.InitContainers[i].Name) != nil {
			return i
		}
	}
	return -1
}

// planSidecar keeps a sidecar running, whatever the pod's policy, and reports
// whether it runs and has started.
func (v *planner) planSidecar(a *Actions, i int) bool {
	spec := &v.Pod.Spec.InitContainers[i]
	running := v.running[spec.Name]
	if running == nil {
		a.StartInit = append(a.StartInit, i)
		return false
	}
	if kill, _ := v.killDecision(spec, running); kill != nil {
		kill.Message += ", will be restarted"
		a.Kill = append(a.Kill, *kill)
		a.StartInit = append(a.StartInit, i)
		return false
	}
	return v.started(spec, running)
}

// planInitContainer reports whether an init container, which has an instance, has
// succeeded. One that failed is started again or ends the pod.
func (v *planner) planInitContainer(a *Actions, i int) bool {
	spec := &v.Pod.Spec.InitContainers[i]
	c := v.newestInSandbox(spec.Name)
	switch {
	case v.running[spec.Name] != nil:
	case c.State == StateExited && !initFailed(c):
		return true
	case c.State != StateCreated && !v.initRestarts(spec, c):
		a.KillPod = true
	default:
		a.StartInit = append(a.StartInit, i)
	}
	return false
}

// initRestarts reports whether an init container that failed is started again.
func (v *planner) initRestarts(spec *v1.Container, c *Container) bool {
	code := exitCode(c)
	if code == 0 {
		code = unknownExitCode // out of memory is a failure, whatever the code
	}
	return OnExit(v.Pod, spec, code) != NoRestart
}

// initFailedForGood reports whether an init container has failed and is not
// started again. In a pod that lost its sandbox that includes one that was still
// running.
func (v *planner) initFailedForGood() bool {
	for i := range v.Pod.Spec.InitContainers {
		spec := &v.Pod.Spec.InitContainers[i]
		c := v.last[spec.Name]
		if c == nil || v.createdNotStarted(spec.Name) || podinfo.IsSidecar(spec) || c.State == StateExited && !initFailed(c) {
			continue
		}
		if !v.initRestarts(spec, c) {
			return true
		}
	}
	return false
}
