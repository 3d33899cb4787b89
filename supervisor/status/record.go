package status

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/wallclock"
)

// Record is what the runtime cannot tell of a pod after the daemon or the
// machine was restarted. The zero Record is that of a pod never seen before. It has
// one field per fact on disk; grouping them would change the file.
type Record struct {
	// StartTime is when the daemon first took the pod up.
	StartTime time.Time `json:"startTime,omitzero"`
	// Start is the same moment by the time since the boot, of pods with a
	// deadline.
	Start *wallclock.Mark `json:"start,omitempty"`
	// Phase, Reason and Message are set once the phase is terminal. A
	// terminal phase stays until NewRun.
	Phase   v1.PodPhase `json:"phase,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	// Rejected: the node did not take the pod, and nothing of it ever ran.
	Rejected bool `json:"rejected,omitempty"`
	// RestartCounts by container name are the least that the next status says.
	RestartCounts map[string]int32 `json:"restartCounts,omitempty"`
	// Backoff is the crash-loop step by container name.
	Backoff map[string]cri.BackoffStep `json:"backoff,omitempty"`
	// Ready by container name holds the containers that run, with their last
	// readiness.
	Ready map[string]ReadyRecord `json:"ready,omitempty"`
	// Again names the containers that were, or are about to be, removed since
	// all containers restart, and have no new instance yet. Their policies and
	// earlier ends do not count: they are started.
	PendingRestart []string `json:"again,omitempty"`
	// PostStart is, by container name, the instance whose postStart hook has
	// returned.
	PostStart map[string]string `json:"postStart,omitempty"`
	// Resized by container name has the running containers whose resources were
	// changed since they were made.
	Resized map[string]ResizedRecord `json:"resized,omitempty"`
	// Allocated by container name are the resources for which the pod was given
	// room, nil before it was: while it wants others that have to wait for room,
	// what starts starts with these.
	Allocated map[string]cri.Resources `json:"allocated,omitempty"`
	// Ends by container name are how the containers of a pod with a terminal
	// phase ended: their remains go when the disk is full.
	Ends map[string]v1.ContainerStateTerminated `json:"ends,omitempty"`
	// Runs counts how often the pod was run again under its UID.
	Runs int `json:"runs,omitempty"`
	// Displaced is why the node ended the pod, nil if it did not. Such a pod
	// runs again.
	Disruption *Disruption `json:"displaced,omitempty"`
}

// ReadyRecord is the last readiness of one container instance.
type ReadyRecord struct {
	ContainerID string `json:"containerID"`
	Ready       bool   `json:"ready"`
	Started     bool   `json:"started"`
}

// ResizedRecord are the resources that one container instance was last given.
type ResizedRecord struct {
	ContainerID string `json:"containerID"`
	cri.Actuated
}

// Observe is the record with what the generated status adds to it. It is the
// only way in which a terminal phase gets into a record, and so the only one
// in which Generate comes to keep it.
func (r Record) Observe(st *v1.PodStatus) Record {
	if r.StartTime.IsZero() && st.StartTime != nil {
		r.StartTime = st.StartTime.Time
	}
	if podinfo.IsTerminal(st.Phase) {
		r.Phase, r.Reason, r.Message = st.Phase, st.Reason, st.Message
		r.Ends = ends(st)
	}
	r.PendingRestart = r.pendingRestart(st)
	counts := make(map[string]int32, len(st.ContainerStatuses))
	ready := make(map[string]ReadyRecord, len(st.ContainerStatuses))
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.RestartCount > 0 {
				counts[c.Name] = c.RestartCount
			}
			if c.State.Running != nil {
				ready[c.Name] = ReadyRecord{
					ContainerID: bareID(c.ContainerID),
					Ready:       c.Ready,
					Started:     c.Started != nil && *c.Started,
				}
			}
		}
	}
	r.RestartCounts, r.Ready = orNil(counts), orNil(ready)
	return r
}

// again is what Again becomes with a status.
func (r Record) pendingRestart(st *v1.PodStatus) []string {
	if podinfo.IsTerminal(st.Phase) {
		return nil
	}
	all := slices.ContainsFunc(st.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.AllContainersRestarting && c.Status == v1.ConditionTrue
	})
	if !all && len(r.PendingRestart) == 0 {
		return nil
	}
	var names []string
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range list {
			c := &list[i]
			if waits := c.ContainerID == "" && slices.Contains(r.PendingRestart, c.Name); waits || all && c.ContainerID != "" {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// ends are how the containers of a status ended.
func ends(st *v1.PodStatus) map[string]v1.ContainerStateTerminated {
	found := map[string]v1.ContainerStateTerminated{}
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range list {
			if end := list[i].State.Terminated; end != nil {
				found[list[i].Name] = *end
			}
		}
	}
	return orNil(found)
}

// NewRun is the record with which the pod is run again under its UID: the
// terminal phase is gone, the restart counts go on, and it asks for room anew. The last published status
// must be taken as it is; it does not bring the phase back.
func (r Record) NewRun() Record {
	r.Phase, r.Reason, r.Message = "", "", ""
	r.StartTime, r.Start, r.PendingRestart, r.Ends, r.Disruption, r.Rejected = time.Time{}, nil, nil, nil, nil, false
	r.Allocated = nil
	r.Runs++
	r.RestartCounts = maps.Clone(r.RestartCounts)
	return r
}

// Terminal reports whether the pod has ended for good in this run.
func (r Record) Terminal() bool { return podinfo.IsTerminal(r.Phase) }

// bareID is a container ID without the API's scheme.
func bareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}

func orNil[M ~map[K]V, K comparable, V any](m M) M {
	if len(m) == 0 {
		return nil
	}
	return m
}
