package cri

import "fmt"

// restartAll kills all containers of a pod and then removes them, so that the pod
// starts over in its sandbox. What runs gets the least grace period, because its
// work is repeated anyway.
func (v *planner) restartAll(triggers []*Container) Actions {
	a := Actions{RestartAll: &RestartAll{Trigger: triggers[0]}}
	if v.sandbox != nil {
		a.SandboxID, a.Attempt = v.sandbox.ID, v.sandbox.Attempt
	}
	grace := int64(0)
	for i := range v.Status.Containers {
		c := &v.Status.Containers[i]
		if c.State != StateRunning && c.State != StateUnknown || isEphemeral(v.Pod, c.Name) {
			continue
		}
		a.Kill = append(a.Kill, Kill{ID: c.ID, Name: c.Name, Reason: KillRestartAll, Grace: &grace,
			Message: fmt.Sprintf("Container %s will be killed, all containers restart because %s exited with %d", c.Name,
				triggers[0].Name, triggers[0].ExitCode)})
	}
	calls := map[string]bool{}
	for _, c := range triggers {
		calls[c.ID] = true
	}
	// The order is the kubelet's.
	for _, last := range []bool{false, true} {
		for _, init := range []bool{false, true} {
			for i := range v.Status.Containers {
				if c := &v.Status.Containers[i]; calls[c.ID] == last && isInit(v.Pod, c.Name) == init &&
					!isEphemeral(v.Pod, c.Name) {
					a.RestartAll.Remove = append(a.RestartAll.Remove, c.ID)
				}
			}
		}
	}
	return a
}
