package rollout

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A crash loop is one whether or not a status shows its back-off: that has passed before the end of
// the container is seen on a slow machine, and with a short podstead.io/max-container-restart-period.
func TestCrashLoopIsAFailure(t *testing.T) {
	waits := func(reason string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	ended := func(code int32) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}
	}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	for _, c := range []struct {
		name     string
		now      v1.ContainerState
		exitCode int32
		// restarts are all, before those when the revision came into effect.
		restarts, before int32
		failed           bool
	}{
		{"waits after the second end", waits("CrashLoopBackOff"), 1, 1, 0, false},
		{"waits after the third end", waits("CrashLoopBackOff"), 1, 2, 0, true},
		{"waits after three successes", waits("CrashLoopBackOff"), 0, 2, 0, false},
		{"runs after the second end", runs, 1, 2, 0, false},
		{"runs after the third end", runs, 1, 3, 0, true},
		{"runs after three successes", runs, 0, 3, 0, false},
		{"runs after ends of an earlier revision", runs, 1, 4, 2, false},
		{"runs after the third end of this revision", runs, 1, 5, 2, true},
		{"pulls after the third end", waits("ErrImagePull"), 1, 3, 0, false},
		{"has ended", ended(1), 1, 3, 0, false},
	} {
		st := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
			{Name: "main", RestartCount: c.restarts, State: c.now, LastTerminationState: ended(c.exitCode)}}}
		cause := failureOf(st, c.before)
		if (cause != nil) != c.failed {
			t.Errorf("%s: %+v, want a failure: %v", c.name, cause, c.failed)
		}
		if cause != nil && (cause.Reason != ReasonCrashLoop ||
			!strings.Contains(cause.Message, `container "main" ended 3 times, the last time with exit code 1`)) {
			t.Errorf("%s: %+v", c.name, cause)
		}
	}
}
