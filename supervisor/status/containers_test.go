package status

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

func waitingState(reason, message string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func lostState(message, id string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		Reason: ReasonStatusUnknown, ExitCode: 137, Message: message, ContainerID: id,
	}}
}

func endState(c cri.Container) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message,
		StartedAt: *seconds(earlier), FinishedAt: *seconds(now), ContainerID: c.ID,
	}}
}

func runningState() v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: *seconds(earlier)}}
}

const (
	locatedAtEnd    = "the container could not be located when the pod terminated"
	locatedAtDelete = "the container was running and does not exist any more; its exit was not observed"
)

func TestContainerStates(t *testing.T) {
	always, never := v1.RestartPolicyAlways, v1.RestartPolicyNever
	crash := map[string]cri.Waiting{"web": {Reason: "CrashLoopBackOff", Message: "back-off 10s"}}
	oom := id(exited("web", 137), "w1")
	oom.Reason, oom.Message = "OOMKilled", "killed"
	was := func(s v1.ContainerState, id string, n int32) *v1.PodStatus {
		return &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
			{Name: "web", State: s, ContainerID: id, RestartCount: n}}}
	}
	cases := []struct {
		name        string
		in          Input
		of          string // web if empty
		state, last v1.ContainerState
		restarts    int32
	}{
		{name: "no trace", in: Input{Pod: pod(always), Observed: observed()},
			state: waitingState("ContainerCreating", "")},
		{name: "no trace, with init containers", in: Input{Pod: pod(always, initContainers("i")), Observed: observed()},
			state: waitingState("PodInitializing", "")},
		{name: "created", in: Input{Pod: pod(always), Observed: observed(inState("web", cri.StateCreated))},
			state: waitingState("", "")},
		{name: "running", in: Input{Pod: pod(always), Observed: observed(count(running("web"), 3))},
			state: runningState(), restarts: 3},
		{name: "the runtime's reason", in: Input{Pod: pod(never), Observed: observed(oom)},
			state: endState(oom)},
		{name: "second newest is the last state, older is history",
			in: Input{Pod: pod(always), Observed: observed(
				count(id(running("web"), "w3"), 2), id(exited("web", 2), "w2"), id(exited("web", 1), "w1"))},
			state: runningState(), last: endState(id(exited("web", 2), "w2")), restarts: 2},
		{name: "only one left: the last state is remembered",
			in: Input{Pod: pod(always), Observed: observed(count(id(running("web"), "w2"), 1)),
				Previous: was(endState(id(exited("web", 1), "w1")), "w1", 0)},
			state: runningState(), last: endState(id(exited("web", 1), "w1")), restarts: 1},

		{name: "crash loop", in: Input{Pod: pod(always), Observed: observed(id(exited("web", 1), "w1")), Waiting: crash},
			state: waitingState("CrashLoopBackOff", "back-off 10s"), last: endState(id(exited("web", 1), "w1"))},
		{name: "image error before the first start",
			in: Input{Pod: pod(always), Observed: observed(),
				Waiting: map[string]cri.Waiting{"web": {Reason: "ErrImagePull", Message: "no"}}},
			state: waitingState("ErrImagePull", "no")},
		{name: "an old reason does not hide a running container",
			in:    Input{Pod: pod(always), Observed: observed(running("web")), Waiting: crash},
			state: runningState()},
		{name: "a container that is not restarted does not wait",
			in:    Input{Pod: pod(never), Observed: observed(id(exited("web", 1), "w1")), Waiting: crash},
			state: endState(id(exited("web", 1), "w1"))},
		{name: "a container that exited with 0 for a kill waits for its restart",
			in: Input{Pod: pod(v1.RestartPolicyOnFailure), Observed: observed(id(exited("web", 0), "w1")), Waiting: crash,
				Record: Record{Resizing: &Resizing{Restarting: map[string]string{"web": "w1"}}}},
			state: waitingState("CrashLoopBackOff", "back-off 10s"), last: endState(id(exited("web", 0), "w1"))},
		{name: "an init container that succeeded does not wait", of: "i",
			in: Input{Pod: pod(always, initContainers("i")), Observed: observed(id(exited("i", 0), "i1")),
				Waiting: map[string]cri.Waiting{"i": {Reason: "X"}}},
			state: endState(id(exited("i", 0), "i1"))},

		{name: "unknown without a previous status",
			in:    Input{Pod: pod(always), Observed: observed(inState("web", cri.StateUnknown))},
			state: waitingState("", "")},
		{name: "unknown that ran",
			in: Input{Pod: pod(always), Observed: observed(count(id(inState("web", cri.StateUnknown), "w1"), 1)),
				Previous: was(runningState(), "w1", 1)},
			state: lostState(locatedAtEnd, "w1"), restarts: 2},
		{name: "unknown that ran, reported before",
			in: Input{Pod: pod(always), Observed: observed(count(id(inState("web", cri.StateUnknown), "w1"), 1)),
				Previous: was(lostState(locatedAtEnd, "w1"), "w1", 2)},
			state: lostState(locatedAtEnd, "w1"), restarts: 2},

		{name: "vanished while running",
			in:    Input{Pod: pod(always), Observed: observed(), Previous: was(runningState(), "w1", 1)},
			state: waitingState("ContainerCreating", ""), last: lostState(locatedAtDelete, ""), restarts: 2},
		{name: "vanished, reported before",
			in: Input{Pod: pod(always), Observed: observed(), Previous: &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
				Name: "web", State: waitingState("ContainerCreating", ""), LastTerminationState: lostState(locatedAtDelete, ""),
				RestartCount: 2}}}},
			state: waitingState("ContainerCreating", ""), last: lostState(locatedAtDelete, ""), restarts: 2},
		{name: "vanished while the daemon was down",
			in: Input{Pod: pod(always), Observed: observed(), Record: Record{
				RestartCounts: map[string]int32{"web": 4}, Ready: map[string]ReadyRecord{"web": {ContainerID: "w1"}}}},
			state: waitingState("ContainerCreating", ""), last: lostState(locatedAtDelete, ""), restarts: 5},
		{name: "vanished while the daemon was down, after the pod was evicted",
			in: Input{Pod: pod(always), Observed: observed(), Record: Record{Phase: v1.PodFailed,
				RestartCounts: map[string]int32{"web": 4}, Ready: map[string]ReadyRecord{"web": {ContainerID: "w1"}}}},
			state: waitingState("ContainerCreating", ""), restarts: 4},
		{name: "vanished after it ended",
			in:    Input{Pod: pod(never), Observed: observed(), Previous: was(endState(id(exited("web", 1), "w1")), "w1", 1)},
			state: endState(id(exited("web", 1), "w1")), restarts: 1},
		{name: "a status without a time is no observation",
			in: Input{Pod: pod(never), Observed: &cri.PodStatus{UID: "u1"}, Record: Record{
				RestartCounts: map[string]int32{"web": 4}, Ready: map[string]ReadyRecord{"web": {ContainerID: "w1"}}}},
			state: waitingState("ContainerCreating", ""), restarts: 4},
		{name: "not observed yet is not vanished", in: Input{Pod: pod(always), Previous: was(runningState(), "w1", 1)},
			state: waitingState("ContainerCreating", ""), restarts: 1},
		{name: "vanished init container of a pod that started", of: "i",
			in: Input{Pod: pod(always, initContainers("i")), Observed: observed(running("web"))},
			state: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed",
				Message: "the init container was removed after later containers had started, so it must have completed"}}},
		{name: "vanished sidecar of a pod that started waits", of: "s",
			in:    Input{Pod: pod(always, sidecar("s")), Observed: observed(running("web"))},
			state: waitingState("PodInitializing", "")},

		{name: "restart counts continue after a wiped runtime",
			in: Input{Pod: pod(always), Observed: observed(running("web")),
				Record: Record{RestartCounts: map[string]int32{"web": 7}}},
			state: runningState(), restarts: 7},

		{name: "exited, exit not observed",
			in:    Input{Pod: pod(always), Observed: observed(), Previous: was(runningState(), "w1", 0), Ended: true},
			state: lostState(locatedAtEnd, ""), last: lostState(locatedAtDelete, ""), restarts: 1},
		{name: "exited, never started", in: Input{Pod: pod(always), Observed: observed(), Ended: true},
			state: waitingState("ContainerCreating", "")},
		{name: "succeeded before a restart, containers removed",
			in:    Input{Pod: pod(never), Observed: &cri.PodStatus{}, Record: Record{Phase: v1.PodSucceeded}},
			state: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.in.Now = now
			if c.of == "" {
				c.of = "web"
			}
			s := status(Generate(c.in), c.of)
			if d := cmp.Diff(c.state, s.State); d != "" {
				t.Errorf("state (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.last, s.LastTerminationState); d != "" {
				t.Errorf("last state (-want +got):\n%s", d)
			}
			if s.RestartCount != c.restarts {
				t.Errorf("restart count = %d, want %d", s.RestartCount, c.restarts)
			}
		})
	}
}

func TestReadyAndStarted(t *testing.T) {
	cases := []struct {
		name           string
		in             Input
		of             string
		started, ready bool
	}{
		{"running without probes", Input{Observed: observed(running("web"))}, "web", true, true},
		{"not ready", Input{Observed: observed(running("web")), Ready: map[string]bool{"web-id": false}}, "web", true, false},
		{"not started is not ready", Input{Observed: observed(running("web")),
			Started: map[string]bool{"web-id": false}, Ready: map[string]bool{"web-id": true}}, "web", false, false},
		{"the result of another instance", Input{Observed: observed(running("web")), Ready: map[string]bool{"old": false}},
			"web", true, true},
		{"ended", Input{Observed: observed(exited("web", 0)), Ready: map[string]bool{"web-id": true}}, "web", false, false},
		{"init done", Input{Observed: observed(exited("i", 0))}, "i", false, true},
		{"init failed", Input{Observed: observed(exited("i", 1))}, "i", false, false},
		{"init running", Input{Observed: observed(running("i"))}, "i", true, false},
		{"sidecar running", Input{Observed: observed(running("s"))}, "s", true, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.in.Pod, c.in.Now = pod(v1.RestartPolicyAlways, initContainers("i"), sidecar("s")), now
			s := status(Generate(c.in), c.of)
			if *s.Started != c.started || s.Ready != c.ready {
				t.Errorf("started %v ready %v, want %v %v", *s.Started, s.Ready, c.started, c.ready)
			}
		})
	}
}

func TestContainersAreInOrder(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, containers("b", "c", "a"), initContainers("z", "y"), sidecar("x"))
	st := Generate(Input{Pod: p, Now: now, Observed: observed(running("c"), running("unknown"))})
	names := func(list []v1.ContainerStatus) (names []string) {
		for _, s := range list {
			names = append(names, s.Name)
		}
		return names
	}
	if got := names(st.ContainerStatuses); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("regular containers %v, want them by name", got)
	}
	if got := names(st.InitContainerStatuses); !slices.Equal(got, []string{"z", "y", "x"}) {
		t.Errorf("init containers %v, want the order of the spec", got)
	}
}

func TestContainerIDsAndImages(t *testing.T) {
	dead := id(exited("web", 1), "w1")
	st := Generate(Input{Pod: pod(v1.RestartPolicyAlways), Now: now, Runtime: "containerd",
		Observed: observed(id(running("web"), "w2"), dead)})
	s := st.ContainerStatuses[0]
	if s.ContainerID != "containerd://w2" || s.LastTerminationState.Terminated.ContainerID != "containerd://w1" {
		t.Errorf("IDs %q and %q, want them with the runtime's name", s.ContainerID,
			s.LastTerminationState.Terminated.ContainerID)
	}
	if s.Image != "web:1" || s.ImageID != "sha256:web" {
		t.Errorf("image %q ID %q", s.Image, s.ImageID)
	}
	rec := Record{}.Observe(&st)
	if rec.Ready["web"].ContainerID != "w2" {
		t.Errorf("recorded ID %q, want the runtime's own", rec.Ready["web"].ContainerID)
	}
}

func TestTerminationMessagesShareTheirBound(t *testing.T) {
	long := exited("web", 1)
	long.Message = strings.Repeat("é", maxMessages)
	for n, names := range map[int][]string{1: {"web"}, 4: {"web", "a", "b", "c"}} {
		st := Generate(Input{Pod: pod(v1.RestartPolicyNever, containers(names...)), Now: now, Observed: observed(long)})
		if got, want := len(status(st, "web").State.Terminated.Message), maxMessages/n; got > want || got < want-2 {
			t.Errorf("%d bytes with %d containers, want %d", got, n, want)
		}
	}
}

// A sidecar's status has probes, back-off and last state like a regular
// container's, though it is among the init containers.
func TestSidecarStatus(t *testing.T) {
	p := pod("Never", initContainers("i"), sidecar("s"))
	for _, c := range []struct {
		name           string
		in             Input
		started, ready bool
		waiting        string
		last           int32
	}{
		{"not there yet", Input{Observed: observed(running("i"))}, false, false, "PodInitializing", 0},
		{"runs", Input{Observed: observed(running("s"), exited("i", 0))}, true, true, "", 0},
		{"has not started", Input{Observed: observed(running("s"), exited("i", 0)), Started: map[string]bool{"s-id": false}},
			false, false, "", 0},
		{"is not ready", Input{Observed: observed(running("s"), exited("i", 0)), Ready: map[string]bool{"s-id": false}}, true,
			false, "", 0},
		{"waits after an end with 0, although the policy is Never", Input{
			Observed: observed(exited("s", 0), running("web"), exited("i", 0)),
			Waiting:  map[string]cri.Waiting{"s": {Reason: "CrashLoopBackOff"}}}, false, false, "CrashLoopBackOff", 0},
		{"runs again", Input{Observed: observed(id(running("s"), "s2"), exited("s", 9), running("web"), exited("i", 0))},
			true, true, "", 9},
	} {
		c.in.Pod, c.in.Now = p, now
		st := Generate(c.in)
		s := find(st.InitContainerStatuses, "s")
		waiting := ""
		if w := s.State.Waiting; w != nil {
			waiting = w.Reason
		}
		if s.Started == nil || *s.Started != c.started || s.Ready != c.ready || waiting != c.waiting {
			t.Errorf("%s: %+v", c.name, s)
		}
		if end := s.LastTerminationState.Terminated; (end != nil && end.ExitCode != c.last) || end == nil && c.last != 0 {
			t.Errorf("%s: last end %+v, want code %d", c.name, end, c.last)
		}
		if i := find(st.InitContainerStatuses, "i"); i.Ready != (i.State.Terminated != nil) {
			t.Errorf("%s: the init container is %+v", c.name, i)
		}
		if st.InitContainerStatuses[0].Name != "i" {
			t.Errorf("%s: not in the order of the spec", c.name)
		}
	}
}

// A status has the mounts of the spec, with the runtime's decision about those that are
// recursively read-only if possible, and the user that the runtime reports.
func TestVolumeMountsAndUser(t *testing.T) {
	enabled, possible, disabled := v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible,
		v1.RecursiveReadOnlyDisabled
	p := pod(v1.RestartPolicyNever)
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "v", MountPath: "/rw"},
		{Name: "v", MountPath: "/ro", ReadOnly: true},
		{Name: "v", MountPath: "/may", ReadOnly: true, RecursiveReadOnly: &possible},
		{Name: "v", MountPath: "/must", ReadOnly: true, RecursiveReadOnly: &enabled},
	}
	mounts := func(may *v1.RecursiveReadOnlyMode) []v1.VolumeMountStatus {
		return []v1.VolumeMountStatus{
			{Name: "v", MountPath: "/rw"},
			{Name: "v", MountPath: "/ro", ReadOnly: true, RecursiveReadOnly: &disabled},
			{Name: "v", MountPath: "/may", ReadOnly: true, RecursiveReadOnly: may},
			{Name: "v", MountPath: "/must", ReadOnly: true, RecursiveReadOnly: &enabled},
		}
	}
	with := func(c cri.Container, paths ...string) cri.Container {
		c.RecursiveReadOnly = append(paths, "/must")
		c.User = &cri.LinuxUser{UID: 1000, GID: 2000, SupplementalGroups: []int64{3000}}
		return c
	}
	user := &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: 1000, GID: 2000, SupplementalGroups: []int64{3000}}}
	for name, c := range map[string]struct {
		in   Input
		may  *v1.RecursiveReadOnlyMode
		user *v1.ContainerUser
	}{
		"not created":          {Input{Observed: observed()}, nil, nil},
		"runtime with support": {Input{Observed: observed(with(running("web"), "/may"))}, &enabled, user},
		"without":              {Input{Observed: observed(with(running("web")))}, &disabled, user},
		"exited":               {Input{Observed: observed(with(exited("web", 0), "/may"))}, &enabled, user},
		"no user": {Input{
			Observed: observed(cri.Container{Name: "web", State: cri.StateRunning, RecursiveReadOnly: []string{"/must"}})},
			&disabled, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Pod, c.in.Now = p, now
			got := status(Generate(c.in), "web")
			if diff := cmp.Diff(mounts(c.may), got.VolumeMounts); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.user, got.User); diff != "" {
				t.Error(diff)
			}
		})
	}
}
