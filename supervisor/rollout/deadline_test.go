package rollout

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// A revision whose readiness flaps around its deadline is judged once: by whether it was Ready
// before the deadline, and did not fail after that. What is decided stays decided, also by the next daemon.
func TestReadinessThatFlapsAtTheDeadline(t *testing.T) {
	const after = time.Minute
	ready := func(h *imagesHarness) { h.observe(true, 0, "") }
	unready := func(h *imagesHarness) { h.observe(false, 0, "") }
	crash := func(h *imagesHarness) { h.observe(false, 1, "") }
	type step struct {
		at time.Duration // from the deadline
		do func(h *imagesHarness)
	}
	for name, test := range map[string]struct {
		steps      []step
		rolledBack bool
	}{
		"ready in the moment before": {[]step{{-time.Nanosecond, ready}, {0, unready}}, false},
		"flaps, ready before": {[]step{{-3 * time.Second, ready}, {-2 * time.Second, unready},
			{-time.Second, ready}, {0, unready}, {time.Second, ready}, {2 * time.Second, unready}}, false},
		"unready at the deadline, ready right after": {[]step{{-time.Second, unready}, {time.Nanosecond, ready}}, true},
		"ready before, fails after":                  {[]step{{-time.Second, ready}, {time.Second, crash}}, true},
		"ready before, fails, ready before again": {[]step{{-5 * time.Second, ready}, {-4 * time.Second, crash},
			{-time.Second, func(h *imagesHarness) { h.observe(true, 1, "") }}}, false},
		"ready before, fails in the last moment": {[]step{{-time.Second, ready}, {-time.Nanosecond, crash}}, true},
		"fails when it is proven already":        {[]step{{-minReady, ready}, {time.Second, crash}}, false},
		"ready before, fails as the trial would end": {
			[]step{{-time.Second, ready}, {minReady - time.Second - time.Nanosecond, crash}}, true},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", then the daemon is killed"}[killed], func(t *testing.T) {
				images(t, func(t *testing.T, h *imagesHarness, pod *v1.Pod) {
					time.Sleep(minReady)
					edited := manifestPod("u2", "r.test/web:2")
					edited.Annotations[podinfo.AnnotationRollbackAfter] = after.String()
					h.edit(pod, edited)
					unready(h)
					deadline := time.Now().Add(after)
					for _, s := range test.steps {
						time.Sleep(time.Until(deadline.Add(s.at)))
						// Not observe of what has come into effect meanwhile: the status is of this revision.
						if h.pod().UID == "u2" {
							s.do(h)
						}
					}
					time.Sleep(2 * minReady)
					synctest.Wait()
					if killed {
						h.stop()
						h.start(edited)
					}
					st, _ := h.ctl.StatusOf("default/web-n1")
					if got := h.pod().UID == "u1"; got != test.rolledBack || test.rolledBack != (st.State == RolledBack) {
						t.Errorf("pod %s is in effect, state %s; rolled back: want %v", h.pod().UID, st.State, test.rolledBack)
					}
				})
			})
		}
	}
}
