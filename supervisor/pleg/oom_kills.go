package pleg

import (
	"slices"

	"github.com/podstead/podstead/cri"
)

const (
	// sigkillCode is the exit code of a container whose main process SIGKILL ended:
	// 128 + 9.
	sigkillCode = 137
	// reasonError is the runtimes' reason for an exit code other than 0,
	// reasonOOMKilled for a container that ran out of memory.
	reasonError     = "Error"
	reasonOOMKilled = "OOMKilled"
)

// withOOMKills returns an inspection in which containers whose main process the kernel
// killed for memory have the reason OOMKilled. A runtime that cannot read the container's
// cgroup, for example because a cgroup v1 controller is not mounted, reports Error. A
// reason that was found stays: the kernel's record of it may be overwritten.
func (p *PLEG) withOOMKills(before, st *cri.PodStatus) *cri.PodStatus {
	copied := false
	for i := range st.Containers {
		c := &st.Containers[i]
		if c.State != cri.StateExited || c.ExitCode != sigkillCode || c.Reason != reasonError || !p.oomKilled(before, c) {
			continue
		}
		if !copied {
			changed := *st
			changed.Containers, copied = slices.Clone(st.Containers), true
			st = &changed
		}
		st.Containers[i].Reason = reasonOOMKilled
	}
	return st
}

// oomKilled reports whether the kernel killed the container for memory.
func (p *PLEG) oomKilled(before *cri.PodStatus, c *cri.Container) bool {
	if before != nil {
		if old := container(before.Containers, c.ID); old != nil && old.State == cri.StateExited &&
			old.Reason == reasonOOMKilled {
			return true
		}
	}
	return p.kills != nil && p.kills.Explains(c.ID, c.FinishedAt)
}
