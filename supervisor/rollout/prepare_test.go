package rollout

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

// waiting is a pod whose edited manifest cannot be prepared. The harness counts.
func waiting(t *testing.T, after time.Duration, f func(h *imagesHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &imagesHarness{t: t, dir: t.TempDir(), after: after}
		pod := manifestPod("u1", tag)
		pod.Annotations[podinfo.AnnotationAutoUpdate] = ""
		h.start(pod)
		defer func() { h.stop() }()
		h.observe(true, 0, "")
		h.refuse(&status.Cause{Reason: "Held", Message: "waits"})
		edited := manifestPod("u2", "r.test/web:2")
		h.edit(pod, edited)
		f(h)
	})
}

// passes returns how many preparations begin within a time.
func (h *imagesHarness) passes(d time.Duration) int {
	before := h.attempts()
	time.Sleep(d)
	synctest.Wait()
	return h.attempts() - before
}

// A candidate that waits for what notifies costs nothing until then, and one that waits
// for something else costs less and less.
func TestPreparationsOfACandidateThatWaits(t *testing.T) {
	t.Run("for what notifies", func(t *testing.T) {
		waiting(t, Notified, func(h *imagesHarness) {
			if n := h.passes(30 * time.Minute); n != 0 || h.attempts() != 1 {
				t.Errorf("%d preparations in 30 minutes, %d before", n, h.attempts()-n)
			}
			h.ctl.RetryPreparations()
			if n := h.passes(30 * time.Minute); n != 1 {
				t.Errorf("%d preparations after a notification", n)
			}
			h.refuse(nil)
			h.ctl.RetryPreparations()
			synctest.Wait()
			if h.pod().UID != "u2" {
				t.Errorf("%s is in effect", h.pod().UID)
			}
		})
	})
	t.Run("for something else", func(t *testing.T) {
		waiting(t, 0, func(h *imagesHarness) {
			// After 10, 30, 70, 150, 310, 610, 910, 1210, 1510 s.
			if n := h.passes(30 * time.Minute); n != 9 {
				t.Errorf("%d preparations in 30 minutes", n)
			}
			h.ctl.RetryPreparations()
			if n := h.passes(31 * time.Second); n != 3 {
				t.Errorf("%d preparations in the 31 s after a change", n)
			}
		})
	})
	t.Run("with its own time", func(t *testing.T) {
		waiting(t, time.Minute, func(h *imagesHarness) {
			if n := h.passes(30*time.Minute + time.Second); n != 30 {
				t.Errorf("%d preparations in 30 minutes", n)
			}
		})
	})
}

// A change during an attempt, which may have looked before it, is not lost.
func TestChangeDuringAPreparation(t *testing.T) {
	waiting(t, Notified, func(h *imagesHarness) {
		h.setSlow(time.Second)
		h.ctl.RetryPreparations()
		synctest.Wait()
		h.ctl.RetryPreparations()
		if n := h.passes(time.Hour); n != 1 || h.attempts() != 3 {
			t.Errorf("%d preparations after the one in progress, %d in all", n, h.attempts())
		}
	})
}

// What was noted to prepare a candidate is dropped when another one supersedes it or its
// manifest is removed, and kept for the start of one that comes into effect.
func TestSupersededCandidatesAreForgotten(t *testing.T) {
	waiting(t, time.Minute, func(h *imagesHarness) {
		second, third, fourth := manifestPod("u2", "r.test/web:2"), manifestPod("u3", "r.test/web:3"),
			manifestPod("u4", "r.test/web:4")
		h.edit(second, third)
		if !slices.Equal(h.forgotten, []types.UID{"u2"}) {
			t.Errorf("after an edit: %q", h.forgotten)
		}
		h.refuse(nil)
		h.edit(third, fourth)
		if !slices.Equal(h.forgotten, []types.UID{"u2", "u3"}) || h.pod().UID != "u4" {
			t.Errorf("after an edit that is prepared: %q, %s is in effect", h.forgotten, h.pod().UID)
		}
		h.refuse(&status.Cause{Reason: "Held", Message: "waits"})
		fifth := manifestPod("u5", "r.test/web:5")
		h.edit(fourth, fifth)
		h.updates <- manifest.PodUpdate{Op: manifest.Remove, Source: manifest.SourceFile, Pods: []*v1.Pod{fifth}}
		synctest.Wait()
		if !slices.Equal(h.forgotten, []types.UID{"u2", "u3", "u5"}) {
			t.Errorf("after the manifest was removed: %q", h.forgotten)
		}
	})
}
