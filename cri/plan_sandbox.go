package cri

import "slices"

// recreateSandbox kills what exists and, if something is still to run, starts
// over in a new sandbox with the first init container. A pod that restarts
// nothing gets a new sandbox only for containers that never ran, which the
// kubelet leaves waiting forever.
func (v *planner) recreateSandbox() Actions {
	a := Actions{KillPod: len(v.Status.Sandboxes)+len(v.Status.Containers) > 0}
	if v.sandbox != nil {
		a.SandboxID = v.sandbox.ID
		a.Attempt = v.sandbox.Attempt + 1
	}
	start := v.regularToStart()
	if len(start) == 0 || v.initFailedForGood() {
		return a
	}
	a.CreateSandbox = true
	v.pruneInit(&a)
	for i := range v.Status.Containers {
		if c := &v.Status.Containers[i]; c.State == StateCreated {
			a.Remove = append(a.Remove, c.ID)
		}
	}
	if len(v.Pod.Spec.InitContainers) > 0 {
		a.StartInit = []int{0}
		return a
	}
	a.Start = start
	return a
}

// regularToStart returns the regular containers that a new sandbox would run.
func (v *planner) regularToStart() []int {
	var start []int
	for i := range v.Pod.Spec.Containers {
		if v.shouldStart(&v.Pod.Spec.Containers[i]) {
			start = append(start, i)
		}
	}
	return start
}

// planCreated decides about containers, of the kept sandbox and of older ones,
// that were created and never started. They stem from a lost reply or from a
// daemon or host that died between the two calls.
func (v *planner) planCreated(a *Actions) {
	if a.KillPod {
		return
	}
	starting := map[string]bool{}
	for _, i := range a.StartEphemeral {
		starting[v.Pod.Spec.EphemeralContainers[i].Name] = true
	}
	for _, i := range a.StartInit {
		starting[v.Pod.Spec.InitContainers[i].Name] = true
	}
	for _, i := range a.Start {
		starting[v.Pod.Spec.Containers[i].Name] = true
	}
	for i := range v.Status.Containers {
		c := &v.Status.Containers[i]
		if c.State != StateCreated || slices.Contains(a.RemoveInit, c.ID) {
			continue
		}
		spec := v.spec(c.Name)
		if v.inNewestSandbox(c) && starting[c.Name] && a.Created[c.Name] == "" && spec != nil && !outdated(spec, c) &&
			v.ChangedObjects[c.ID] == "" {
			if a.Created == nil {
				a.Created = map[string]string{}
			}
			a.Created[c.Name] = c.ID
			continue
		}
		a.Remove = append(a.Remove, c.ID)
	}
}
