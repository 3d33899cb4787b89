package status

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Reasons of container states that come from the kubelet, not from the runtime.
const (
	// ReasonCreating and ReasonInitializing are for containers that do not exist
	// yet, without and with init containers.
	ReasonCreating     = "ContainerCreating"
	ReasonInitializing = "PodInitializing"
	// ReasonStatusUnknown is for a container whose exit was not observed.
	ReasonStatusUnknown = "ContainerStatusUnknown"
	reasonCompleted     = "Completed"
	reasonOOMKilled     = "OOMKilled"
	// ReasonRestartingAll is for a container that was removed because all
	// containers restart, and that has not been created again.
	ReasonRestartingAll = "RestartingAllContainers"

	// lostMessage is for a container whose exit was not observed before its pod
	// terminated.
	lostMessage = "the container could not be located when the pod terminated"

	// lostExitCode is what the kubelet reports for an exit that was not observed:
	// 128 + SIGKILL.
	lostExitCode = 137
	// maxMessages bounds all termination messages of a pod together, in bytes. It is
	// split evenly over its containers (kubelet: 12 KiB).
	maxMessages = 12 << 10
)

// builder builds the statuses of one list of containers.
type builder struct {
	in       Input
	previous []v1.ContainerStatus
	init     bool
	// ephemeral containers are never ready, and have no resources.
	ephemeral bool
	// messageLimit bounds one termination message, in bytes.
	messageLimit int
}

// regularStatuses returns the statuses sorted by name, as the kubelet does.
func regularStatuses(in Input) []v1.ContainerStatus {
	b := newBuilder(in, false)
	list := b.build(in.Pod.Spec.Containers)
	slices.SortFunc(list, func(a, c v1.ContainerStatus) int { return strings.Compare(a.Name, c.Name) })
	return list
}

// initStatuses returns the statuses in the order of the spec, as the kubelet does.
func initStatuses(in Input) []v1.ContainerStatus {
	b := newBuilder(in, true)
	return b.build(in.Pod.Spec.InitContainers)
}

// ephemeralStatuses returns the statuses in the order of the spec.
func ephemeralStatuses(in Input) []v1.ContainerStatus {
	b := newBuilder(in, false)
	// The API server has the statuses of containers that were removed.
	b.ephemeral, b.previous = true, in.Pod.Status.EphemeralContainerStatuses
	if in.Previous != nil {
		b.previous = in.Previous.EphemeralContainerStatuses
	}
	b.previous = withEnds(b.previous, in.Record.EphemeralEnds)
	return b.build(cri.Ephemeral(in.Pod))
}

// withEnds returns the statuses with those of containers of which only the record knows the end.
func withEnds(previous []v1.ContainerStatus, ends map[string]v1.ContainerStateTerminated) []v1.ContainerStatus {
	for name, end := range ends {
		if find(previous, name) == nil {
			previous = append(previous[:len(previous):len(previous)], v1.ContainerStatus{
				Name: name, ContainerID: end.ContainerID, State: v1.ContainerState{Terminated: &end},
			})
		}
	}
	return previous
}

func newBuilder(in Input, init bool) builder {
	n := len(in.Pod.Spec.Containers) + len(in.Pod.Spec.InitContainers) + len(in.Pod.Spec.EphemeralContainers)
	b := builder{in: in, init: init, messageLimit: maxMessages / max(n, 1)}
	if in.Previous != nil {
		b.previous = in.Previous.ContainerStatuses
		if init {
			b.previous = in.Previous.InitContainerStatuses
		}
	}
	return b
}

func (b *builder) build(containers []v1.Container) []v1.ContainerStatus {
	if len(containers) == 0 {
		return nil
	}
	list := make([]v1.ContainerStatus, 0, len(containers))
	for i := range containers {
		list = append(list, b.buildOne(&containers[i]))
	}
	return list
}

func (b *builder) buildOne(c *v1.Container) v1.ContainerStatus {
	newest, second := b.instances(c.Name)
	previous := find(b.previous, c.Name)
	var s v1.ContainerStatus
	if newest != nil {
		s = b.observed(newest, second, previous)
	} else {
		s = b.notObserved(c, previous)
	}
	s.RestartCount = max(s.RestartCount, b.in.Record.RestartCounts[c.Name])
	if s.Image == "" {
		s.Image = c.Image
	}
	b.overrideWaiting(c, &s)
	b.awaitSuccessor(c, &s)
	b.fillTerminated(&s, previous)
	s.VolumeMounts = volumeMounts(c, newest)
	if b.ephemeral {
		return singleRun(s)
	}
	s.AllocatedResourcesStatus = b.in.Devices[c.Name]
	b.setProbeResults(c, newest, &s)
	b.setResources(c, newest, &s)
	return s
}

// singleRun returns the status of a container that is not restarted: its last
// termination is its state.
func singleRun(s v1.ContainerStatus) v1.ContainerStatus {
	if s.State.Waiting != nil && s.LastTerminationState.Terminated != nil {
		s.State, s.LastTerminationState = s.LastTerminationState, v1.ContainerState{}
	}
	s.RestartCount = 0
	return s
}

// instances returns the newest and the second newest instance.
func (b *builder) instances(name string) (newest, second *cri.Container) {
	if b.in.Observed == nil {
		return nil, nil
	}
	for i := range b.in.Observed.Containers {
		c := &b.in.Observed.Containers[i]
		switch {
		case c.Name != name:
		case newest == nil:
			newest = c
		default:
			return newest, c
		}
	}
	return newest, nil
}

// observed returns the status of a container that the runtime has.
func (b *builder) observed(c, before *cri.Container, previous *v1.ContainerStatus) v1.ContainerStatus {
	s := v1.ContainerStatus{
		Name:         c.Name,
		Image:        c.Image,
		ImageID:      c.ImageRef,
		ContainerID:  c.ID,
		RestartCount: int32(c.RestartCount),
	}
	if c.StopSignal != "" {
		s.StopSignal = &c.StopSignal
	}
	if c.User != nil {
		s.User = &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: c.User.UID, GID: c.User.GID,
			SupplementalGroups: c.User.SupplementalGroups}}
	}
	if b.in.Runtime != "" {
		s.ContainerID = b.in.Runtime + "://" + c.ID
	}
	if previous != nil {
		s.RestartCount = max(s.RestartCount, previous.RestartCount)
		s.LastTerminationState = lastOf(previous, s.ContainerID)
	}
	s.State = b.state(c, s.ContainerID)
	if c.State == cri.StateUnknown {
		setLost(&s, previous)
	}
	if before != nil {
		s.LastTerminationState = b.state(before, idLike(s.ContainerID, before.ID))
	}
	return s
}

// state returns the state of an instance in the API's form.
func (b *builder) state(c *cri.Container, id string) v1.ContainerState {
	switch c.State {
	case cri.StateRunning:
		return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: orZero(c.StartedAt)}}
	case cri.StateExited:
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode:    c.ExitCode,
			Reason:      c.Reason,
			Message:     truncate(c.Message, b.messageLimit),
			StartedAt:   orZero(c.StartedAt),
			FinishedAt:  orZero(c.FinishedAt),
			ContainerID: id,
		}}
	}
	// A created container waits to run. An unknown state is shown as waiting too,
	// unless the caller knows more.
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}
}

// setLost turns the status of an instance in unknown state that was running into a
// terminated one. The kubelet counts a restart for it, and forgets the state at the
// next generation; here it is kept until the instance is replaced.
func setLost(s, previous *v1.ContainerStatus) {
	if previous == nil {
		return
	}
	same := previous.ContainerID == s.ContainerID
	switch end := previous.State.Terminated; {
	case previous.State.Running != nil:
		s.RestartCount = max(s.RestartCount, previous.RestartCount+1)
		s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason:      ReasonStatusUnknown,
			Message:     lostMessage,
			ExitCode:    lostExitCode,
			ContainerID: s.ContainerID,
		}}
	case same && end != nil && end.Reason == ReasonStatusUnknown:
		s.State = previous.State
	}
}

// notObserved returns the status of a container that the runtime does not have.
func (b *builder) notObserved(c *v1.Container, previous *v1.ContainerStatus) v1.ContainerStatus {
	s := v1.ContainerStatus{Name: c.Name, Image: c.Image, State: b.notCreated()}
	if previous != nil {
		if previous.State.Terminated != nil {
			s = *previous
		}
		s.RestartCount = previous.RestartCount
		s.LastTerminationState = previous.LastTerminationState
	}
	if b.in.Observed == nil || b.in.Observed.At.IsZero() {
		// Nothing was observed yet. That must not end a pod that may be running.
		return s
	}
	if b.in.pendingRestart(c.Name) {
		restartWithAll(&s, previous)
		return s
	}
	// An init container may be removed after it has completed.
	if b.init && !podinfo.IsSidecar(c) && s.State.Waiting != nil && regularCreated(b.in) {
		s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason:  reasonCompleted,
			Message: "the init container was removed after later containers had started, so it must have completed",
		}}
		return s
	}
	if b.vanished(c.Name, previous) {
		// Waiting alone would set a pod that ran back to Pending. Unlike in the
		// kubelet, an older termination is replaced, because this one is newer.
		s.LastTerminationState = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason:   ReasonStatusUnknown,
			Message:  "the container was running and does not exist any more; its exit was not observed",
			ExitCode: lostExitCode,
		}}
		s.RestartCount = max(s.RestartCount, b.in.Record.RestartCounts[c.Name]) + 1
	}
	return s
}

// restartWithAll sets the status of a container that was removed because all
// containers restart. Its restart is counted once: when it is first missing.
func restartWithAll(s, previous *v1.ContainerStatus) {
	s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: ReasonRestartingAll}}
	if previous == nil || previous.ContainerID == "" {
		return
	}
	s.ContainerID, s.ImageID = "", ""
	s.RestartCount = previous.RestartCount + 1
	switch {
	case previous.State.Terminated != nil:
		s.LastTerminationState = v1.ContainerState{Terminated: previous.State.Terminated}
	case previous.State.Running != nil:
		s.LastTerminationState = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason:      ReasonStatusUnknown,
			Message:     "the container was stopped because all containers restart; its exit was not observed",
			ExitCode:    lostExitCode,
			ContainerID: previous.ContainerID,
		}}
	}
}

// vanished reports whether the container ran at the last observation. After a restart
// of the daemon only the record shows it.
func (b *builder) vanished(name string, previous *v1.ContainerStatus) bool {
	if previous != nil {
		return previous.State.Running != nil
	}
	_, ran := b.in.Record.Ready[name]
	return ran && !b.in.Record.Terminal()
}

// notCreated returns the state of a container that was not created yet.
func (b *builder) notCreated() v1.ContainerState {
	w := &v1.ContainerStateWaiting{Reason: ReasonCreating}
	if len(b.in.Pod.Spec.InitContainers) > 0 {
		w.Reason = ReasonInitializing
	}
	return v1.ContainerState{Waiting: w}
}

// overrideWaiting shows why a container that should run could not be started.
func (b *builder) overrideWaiting(c *v1.Container, s *v1.ContainerStatus) {
	w, ok := b.in.Waiting[c.Name]
	if !ok || s.State.Running != nil || b.in.Record.Terminal() || b.ephemeral && s.State.Terminated != nil {
		return
	}
	if end := s.State.Terminated; end != nil {
		code, completes := end.ExitCode, b.init && !podinfo.IsSidecar(c)
		if completes {
			code = failureCode(end)
		}
		if completes && !initFailed(end) || !restarts(b.in, c, code) && !b.in.restartsKilled(c.Name) {
			return
		}
		s.LastTerminationState = s.State
	}
	s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: w.Reason, Message: w.Message}}
}

// awaitSuccessor shows a container as waiting that was killed to be restarted, and whose exit code
// alone would keep it down: the API server refuses every status that leaves the terminated state of
// such a container, and so each later status of its pod. (The kubelet publishes nothing between the
// kill and the restart.)
func (b *builder) awaitSuccessor(c *v1.Container, s *v1.ContainerStatus) {
	end := s.State.Terminated
	if end == nil || b.ephemeral || b.in.Record.Terminal() || b.in.Ended || !b.in.restartsKilled(c.Name) ||
		restarts(b.in, c, end.ExitCode) {
		return
	}
	s.LastTerminationState = s.State
	s.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: ReasonCreating}}
}

// fillTerminated sets the terminated state of a container in a terminated pod whose
// exit was not observed: it may have been removed before a restart of the daemon. A
// container that never started keeps waiting, as in the kubelet.
func (b *builder) fillTerminated(s, previous *v1.ContainerStatus) {
	if s.State.Terminated != nil {
		return
	}
	if end, ok := b.in.Record.Ends[s.Name]; ok && b.in.Record.Terminal() && s.ContainerID == "" {
		s.State, s.ContainerID = v1.ContainerState{Terminated: &end}, end.ContainerID
		return
	}
	if b.in.Record.Phase == v1.PodSucceeded && !b.ephemeral {
		// Known from the phase: all of them exited with 0.
		s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: reasonCompleted}}
		return
	}
	if !b.in.Ended {
		return
	}
	started := s.ContainerID != "" || s.RestartCount > 0 || s.LastTerminationState.Terminated != nil ||
		previous != nil && previous.State.Running != nil
	if started {
		s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			Reason:      ReasonStatusUnknown,
			Message:     lostMessage,
			ExitCode:    lostExitCode,
			ContainerID: s.ContainerID,
		}}
	}
}

// setProbeResults sets started and ready. A container without probes is started when
// it runs and ready when it has started.
func (b *builder) setProbeResults(c *v1.Container, newest *cri.Container, s *v1.ContainerStatus) {
	started, ready := false, false
	if s.State.Running != nil {
		started, ready = true, true
		if v, ok := b.in.Started[newest.ID]; ok {
			started = v
		}
		if v, ok := b.in.Ready[newest.ID]; ok {
			ready = v
		}
		ready = ready && started
	}
	if b.init && !podinfo.IsSidecar(c) {
		ready = s.State.Terminated != nil && !initFailed(s.State.Terminated)
	}
	s.Started, s.Ready = &started, ready
}

// lastOf returns the last termination that the previous status shows.
func lastOf(previous *v1.ContainerStatus, id string) v1.ContainerState {
	if previous.ContainerID != id && previous.State.Terminated != nil {
		return v1.ContainerState{Terminated: previous.State.Terminated}
	}
	return previous.LastTerminationState
}

func regularCreated(in Input) bool {
	for i := range in.Observed.Containers {
		if isRegular(in.Pod, in.Observed.Containers[i].Name) {
			return true
		}
	}
	return false
}

// idLike returns id with the scheme of another ID.
func idLike(other, id string) string {
	if scheme, _, ok := strings.Cut(other, "://"); ok {
		return scheme + "://" + id
	}
	return id
}

func orZero(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return *seconds(t)
}

// truncate bounds a message without splitting a rune.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
