package rollout

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

const webPod = "default/web-n1"

// undoHarness is an imagesHarness in which the pod u1, which was Ready, has been replaced by u2, which
// is Ready too.
func undoHarness(t *testing.T, f func(h *imagesHarness, first, second *v1.Pod)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &imagesHarness{t: t, dir: t.TempDir(), after: Notified}
		defer func() { h.stop() }()
		first, second := manifestPod("u1", "i:1"), manifestPod("u2", "i:2")
		h.start(first)
		h.observe(true, 0, "")
		h.edit(first, second)
		h.observe(true, 0, "")
		h.mustBe(Stable, "u2")
		f(h, first, second)
	})
}

// mustBe fails unless the revision with this UID is in effect, in this state.
func (h *imagesHarness) mustBe(state State, uid types.UID) {
	h.t.Helper()
	synctest.Wait()
	st, _ := h.ctl.StatusOf(webPod)
	if st.UID != uid || st.State != state || h.pod().UID != uid || state != Preparing && st.Candidate != "" {
		h.t.Errorf("%s runs, %+v, want %s %s", h.pod().UID, st, uid, state)
	}
}

// undo undoes a rollout and fails unless the error has this text.
func (h *imagesHarness) undo(revision, want string) {
	h.t.Helper()
	err := h.ctl.Undo(webPod, revision)
	if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
		h.t.Errorf("undo: %v, want %q", err, want)
	}
}

// history returns the images of the revisions in one line, with how each is shown.
func (h *imagesHarness) history() string {
	h.t.Helper()
	list, err := h.ctl.History(webPod)
	if err != nil {
		h.t.Fatal(err)
	}
	var lines []string
	for _, r := range list {
		line := r.Images["web"]
		if r.InEffect {
			line += " in effect"
		}
		if r.Candidate != "" {
			line += " " + string(r.Candidate)
		}
		if r.Message != "" {
			line += " " + r.Message
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// A candidate has changed nothing yet: Undo drops it and leaves alone what runs, and Retry prepares it
// again. The history shows it, and how far it is.
func TestUndoDropsTheCandidate(t *testing.T) {
	for name, c := range map[string]struct {
		cause *status.Cause
		after time.Duration
		want  string
	}{
		"that is prepared": {nil, 0, "i:3 Preparing"},
		"that waits": {&status.Cause{Reason: "DependencyNotReady", Message: "db"}, Notified,
			"i:3 Waiting DependencyNotReady: db"},
		"that failed": {&status.Cause{Reason: "ErrImagePull", Message: "none"}, 0, "i:3 Failed ErrImagePull: none"},
	} {
		t.Run(name, func(t *testing.T) {
			undoHarness(t, func(h *imagesHarness, _, second *v1.Pod) {
				h.refuse(c.cause)
				h.after = c.after
				if c.cause == nil {
					h.setSlow(time.Minute)
				}
				third := manifestPod("u3", "i:3")
				h.edit(second, third)
				h.mustBe(Preparing, "u2")
				if got, want := h.history(), c.want+", i:2 in effect, i:1"; got != want {
					t.Errorf("history %s, want %s", got, want)
				}
				h.undo("", "")
				h.mustBe(Undone, "u2")
				h.refuse(nil)
				h.ctl.RetryPreparations()
				time.Sleep(time.Hour)
				h.mustBe(Undone, "u2")
				if got, want := h.history(), "i:2 in effect, i:1"; got != want {
					t.Errorf("history %s, want %s", got, want)
				}
				if !slices.Contains(h.forgotten, "u3") {
					t.Errorf("what was noted to prepare the candidate stays: %q", h.forgotten)
				}
				h.stop()
				h.start(third)
				time.Sleep(time.Hour)
				h.mustBe(Undone, "u2")
				h.setSlow(0)
				if err := h.ctl.Retry(webPod); err != nil {
					t.Fatal(err)
				}
				h.mustBe(Stable, "u3")
			})
		})
	}
}

// Undo to a named revision drops the candidate, and prepares that one; to the candidate it changes nothing.
func TestUndoToARevisionDropsTheCandidate(t *testing.T) {
	undoHarness(t, func(h *imagesHarness, first, second *v1.Pod) {
		h.refuse(&status.Cause{Reason: "ErrImagePull", Message: "none"})
		third := manifestPod("u3", "i:3")
		h.edit(second, third)
		h.undo(revisionID(third), "it is being prepared already")
		h.mustBe(Preparing, "u2")
		h.undo(revisionID(first), "")
		h.mustBe(Preparing, "u2")
		if got, want := h.history(), "i:2 in effect, i:1 Waiting ErrImagePull: none"; got != want {
			t.Errorf("history %s, want %s", got, want)
		}
		h.refuse(nil)
		h.ctl.RetryPreparations()
		h.mustBe(Undone, "u1")
		h.undo(revisionID(third), "no such revision")
	})
}

// An undo that is prepared is dropped by the next one, and so is one that has come into effect.
func TestUndoOfUndo(t *testing.T) {
	undoHarness(t, func(h *imagesHarness, _, _ *v1.Pod) {
		h.refuse(&status.Cause{Reason: "ErrImagePull", Message: "none"})
		h.undo("", "")
		h.mustBe(Preparing, "u2")
		h.undo("", "")
		h.mustBe(Stable, "u2")
		h.refuse(nil)
		h.undo("", "")
		h.mustBe(Undone, "u1")
		h.observe(true, 0, "")
		h.undo("", "")
		h.mustBe(Stable, "u2")
	})
}

// Without an earlier revision that was Ready there is nothing to return to, but a candidate is dropped.
func TestUndoWithoutAnEarlierRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &imagesHarness{t: t, dir: t.TempDir(), after: Notified}
		defer func() { h.stop() }()
		first := manifestPod("u1", "i:1")
		h.start(first)
		h.observe(false, 0, "")
		h.undo("", "none was Ready before the one in effect")
		if err := h.ctl.Undo(webPod, ""); !errors.Is(err, api.ErrNoRevision) {
			t.Error(err)
		}
		h.refuse(&status.Cause{Reason: "ErrImagePull", Message: "none"})
		h.edit(first, manifestPod("u2", "i:2"))
		h.mustBe(Preparing, "u1")
		h.undo("", "")
		h.mustBe(Undone, "u1")
	})
}

// What runs is not returned to if it was never Ready and an earlier revision was.
func TestUndoWhileARevisionRunsThatWasNeverReady(t *testing.T) {
	undoHarness(t, func(h *imagesHarness, _, second *v1.Pod) {
		third := manifestPod("u3", "i:3")
		third.Annotations[podinfo.AnnotationRollbackAfter] = "1h"
		h.edit(second, third)
		h.observe(false, 0, "")
		h.refuse(&status.Cause{Reason: "ErrImagePull", Message: "none"})
		h.edit(third, manifestPod("u4", "i:4"))
		h.mustBe(Preparing, "u3")
		h.refuse(nil)
		h.undo("", "")
		h.mustBe(Undone, "u2")
	})
}

// The message of a rollout reports what goes on.
func TestMessageDuringPreparation(t *testing.T) {
	undoHarness(t, func(h *imagesHarness, _, second *v1.Pod) {
		h.setSlow(time.Minute)
		third := manifestPod("u3", "i:3")
		h.edit(second, third)
		want := "revision " + revisionID(third) + " is being prepared, the running one stays until then"
		if st, _ := h.ctl.StatusOf(webPod); st.Message != want {
			t.Errorf("%q, want %q", st.Message, want)
		}
	})
}

// An image update that is undone, before or after it came into effect, is not made again until a request ends that.
func TestUndoOfAnImageUpdate(t *testing.T) {
	for name, refused := range map[string]*status.Cause{"that is prepared": {Reason: "ErrImagePull", Message: "none"},
		"that is in effect": nil} {
		t.Run(name, func(t *testing.T) {
			images(t, func(t *testing.T, h *imagesHarness, pod *v1.Pod) {
				h.refuse(refused)
				h.after = Notified
				if err := h.ctl.UpdateImages(webPod, web(newer), web(oldest)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if refused == nil {
					h.observe(true, 0, "")
					time.Sleep(time.Minute)
				}
				h.undo("", "")
				h.mustBe(Undone, pod.UID)
				h.stop()
				h.start(pod)
				h.mustBe(Undone, pod.UID)
				if busy := h.target().Busy; !strings.Contains(busy, "podstead rollout retry ends that") {
					t.Errorf("it is offered again: %q", busy)
				}
				h.refuse(nil)
				if err := h.ctl.Retry(webPod); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := h.image(); !strings.HasPrefix(got, newer) {
					t.Errorf("%s runs, want %s", got, newer)
				}
			})
		})
	}
}
