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

// Record is what the runtime does not know of a pod after a restart of the daemon or
// the host. The zero Record is that of a new pod. It has more than 15 fields because
// it is the form of the file.
type Record struct {
	// StartTime is when the daemon first synced the pod.
	StartTime time.Time `json:"startTime,omitzero"`
	// Start is the same time since the boot, for pods with a deadline.
	Start *wallclock.Mark `json:"start,omitempty"`
	// Phase, Reason and Message are set once the phase is terminal. A
	// terminal phase stays until NewRun.
	Phase   v1.PodPhase `json:"phase,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	// Rejected: the pod did not pass admission, and nothing of it ever ran.
	Rejected bool `json:"rejected,omitempty"`
	// RestartCounts by container name are the least restart counts of the next
	// status.
	RestartCounts map[string]int32 `json:"restartCounts,omitempty"`
	// Backoff is the crash-loop step by container name.
	Backoff map[string]cri.BackoffStep `json:"backoff,omitempty"`
	// Ready has the running containers by name, with their last readiness.
	Ready map[string]ReadyRecord `json:"ready,omitempty"`
	// PendingRestart are the containers that were, or are about to be, removed
	// because all containers restart, and have no new instance yet. They are started
	// whatever their policies and earlier exits.
	PendingRestart []string `json:"again,omitempty"`
	// Killed has, by container name, the instance that was killed to be restarted and
	// has no successor yet, if an exit code could keep the container down.
	Killed map[string]cri.KilledInstance `json:"killedToRestart,omitempty"`
	// PostStart has, by container name, the instance whose postStart hook has
	// returned.
	PostStart map[string]string `json:"postStart,omitempty"`
	// Resized has, by name, the running containers whose resources were changed
	// since they were created.
	Resized map[string]ResizedRecord `json:"resized,omitempty"`
	// Allocated are the allocated resources by container name, nil before the pod
	// was admitted. While a resize is deferred, containers start with these. The name
	// "" is the pod as a whole; records of earlier versions do not have it.
	Allocated map[string]cri.Resources `json:"allocated,omitempty"`
	// Resizing is the resize in progress, nil if there is none.
	Resizing *Resizing `json:"resizing,omitempty"`
	// CgroupResources are the resources of the pod as a whole that its cgroup was last
	// given, nil before that. They differ from those that are allocated while a resize is
	// in progress or fails. Records of earlier versions do not have them.
	CgroupResources *cri.Resources `json:"cgroupResources,omitempty"`
	// Ends are, by container name, the terminations of the containers of a pod with
	// a terminal phase: the containers are removed when the disk is full.
	Ends map[string]v1.ContainerStateTerminated `json:"ends,omitempty"`
	// EphemeralEnds are, by name, the terminations of the ephemeral containers of this run.
	// They are never started again, also after they were removed from the runtime.
	EphemeralEnds map[string]v1.ContainerStateTerminated `json:"ephemeralEnds,omitempty"`
	// Runs counts how often the pod was restarted under its UID.
	Runs int `json:"runs,omitempty"`
	// Disruption is why the node ended the pod, nil if it did not. A static pod runs
	// again.
	Disruption *Disruption `json:"displaced,omitempty"`
}

// ReadyRecord is the last readiness of one container instance.
type ReadyRecord struct {
	ContainerID string `json:"containerID"`
	Ready       bool   `json:"ready"`
	Started     bool   `json:"started"`
}

// ResizedRecord are the resources to which a container instance was last resized.
type ResizedRecord struct {
	ContainerID string `json:"containerID"`
	cri.Actuated
}

// Observe returns the record with what the generated status adds to it. Only it sets
// a terminal phase, which Generate keeps from then on.
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
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses,
		st.EphemeralContainerStatuses} {
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
	r.EphemeralEnds = r.ephemeralEnds(st)
	return r
}

// ephemeralEnds returns EphemeralEnds after a status.
func (r Record) ephemeralEnds(st *v1.PodStatus) map[string]v1.ContainerStateTerminated {
	known := r.EphemeralEnds
	for i := range st.EphemeralContainerStatuses {
		c := &st.EphemeralContainerStatuses[i]
		end := c.State.Terminated
		if before, ok := known[c.Name]; end == nil || ok && before == *end {
			continue
		}
		ends := maps.Clone(known)
		if ends == nil {
			ends = map[string]v1.ContainerStateTerminated{}
		}
		ends[c.Name] = *end
		known = ends
	}
	return known
}

// Ran returns the ephemeral containers that have run, by name.
func (r Record) Ran(pod *v1.Pod) map[string]bool {
	var ran map[string]bool
	for i := range pod.Spec.EphemeralContainers {
		name := pod.Spec.EphemeralContainers[i].Name
		_, runs := r.Ready[name]
		if _, ended := r.EphemeralEnds[name]; !ended && !runs {
			continue
		}
		if ran == nil {
			ran = map[string]bool{}
		}
		ran[name] = true
	}
	return ran
}

// pendingRestart returns PendingRestart after a status.
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

// ends returns the terminations of the containers of a status.
func ends(st *v1.PodStatus) map[string]v1.ContainerStateTerminated {
	found := map[string]v1.ContainerStateTerminated{}
	for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses,
		st.EphemeralContainerStatuses} {
		for i := range list {
			if end := list[i].State.Terminated; end != nil {
				found[list[i].Name] = *end
			}
		}
	}
	return orNil(found)
}

// NewRun returns the record with which the pod is restarted under its UID: without
// the terminal phase and the allocation, and with the restart counts. The last
// published status does not bring the phase back.
func (r Record) NewRun() Record {
	r.Phase, r.Reason, r.Message = "", "", ""
	r.StartTime, r.Start, r.PendingRestart, r.Ends, r.Disruption, r.Rejected = time.Time{}, nil, nil, nil, nil, false
	r.Allocated, r.CgroupResources, r.Resizing, r.Killed, r.EphemeralEnds = nil, nil, nil, nil, nil
	r.Runs++
	r.RestartCounts = maps.Clone(r.RestartCounts)
	return r
}

// Restarting returns, by container name, the instances that were killed for a resize or
// otherwise to be restarted: the successor starts whatever the exit code was.
func (r Record) Restarting(observed *cri.PodStatus) map[string]string {
	killed := cri.Restarting(r.Killed, observed)
	if r.Resizing == nil || len(r.Resizing.Restarting) == 0 {
		return killed
	}
	all := maps.Clone(r.Resizing.Restarting)
	maps.Copy(all, killed)
	return all
}

// Terminal reports whether the phase of this run is terminal.
func (r Record) Terminal() bool { return podinfo.IsTerminal(r.Phase) }

// bareID returns a container ID without the API's scheme.
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
