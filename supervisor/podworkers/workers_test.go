package podworkers

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

func TestSuccessorIsNotifiedAndDoesNotPoll(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Syncing)
		h.finish("u1", SyncResult{})
		h.workers.Remove("u1")
		h.workers.Update(testPod("web", "u2", "r2"))
		h.want("u2", Queued)
		time.Sleep(7 * time.Second)
		at := time.Now()
		h.finishIf("u1", Terminating)
		h.want("u2", Queued)
		h.finishIf("u1", Terminated)
		h.want("u2", Syncing)
		if waited := time.Since(at); waited != 0 {
			t.Errorf("successor started %s after its predecessor had ended", waited)
		}
	})
}

// A second edit within the grace period (k/k#97722): the edit in between never runs.
func TestSecondEditWithinGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Syncing)
		h.workers.Remove("u1")
		h.workers.Update(testPod("web", "u2", "r2"))
		synctest.Wait()
		h.workers.Remove("u2")
		h.workers.Update(testPod("web", "u3", "r3"))
		h.finishIf("u2", Terminating)
		h.finishIf("u2", Terminated)
		h.finishIf("u2", Finished)
		h.want("u3", Queued)
		h.finishIf("u1", Terminating)
		h.finishIf("u1", Terminated)
		h.want("u3", Syncing)
		for _, j := range h.started {
			if j.Pod.UID == "u2" && j.State == Syncing {
				t.Error("the edit in between was run")
			}
		}
	})
}

func TestWaitersStartInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Syncing)
		h.workers.Update(testPod("web", "u2", "r2"))
		h.workers.Update(testPod("web", "u3", "r3"))
		h.end("u1")
		h.want("u2", Syncing)
		h.want("u3", Queued)
		h.end("u2")
		h.want("u3", Syncing)
	})
}

func TestKillIsNotOverwritten(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Syncing)
		first := h.inFlight("u1")
		h.workers.Remove("u1")
		synctest.Wait()
		if first.ctx.Err() == nil {
			t.Error("the sync in flight was not cancelled by the kill")
		}
		h.workers.Update(testPod("web", "u1", "r1"))
		h.workers.Update(testPod("web", "u1", "r9"))
		h.want("u1", Terminating)
		if j := h.inFlight("u1").job; j.Kill == nil || j.Kill.Reason != KillRemoved {
			t.Errorf("kill is %+v", j.Kill)
		}
	})
}

func TestGraceOnlyShrinks(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Syncing)
		h.workers.Remove("u1")
		killing := h.inFlight("u1")
		if killing.job.Grace != 30 {
			t.Fatalf("grace %d, want the pod's 30", killing.job.Grace)
		}
		shorten := func(seconds int64) {
			h.workers.mu.Lock()
			h.workers.end(h.workers.byUID["u1"], onKill, KillOrder{Reason: "Later", Grace: &seconds})
			h.workers.mu.Unlock()
			synctest.Wait()
		}
		shorten(60)
		if killing.ctx.Err() != nil || h.inFlight("u1") != killing {
			t.Error("a longer grace disturbed the kill")
		}
		shorten(5)
		if killing.ctx.Err() == nil {
			t.Error("a shorter grace did not cancel the kill in flight")
		}
		if j := h.inFlight("u1").job; j.Grace != 5 || j.Kill.Reason != KillRemoved {
			t.Errorf("grace %d reason %s, want 5 and the first reason", j.Grace, j.Kill.Reason)
		}
		shorten(0)
		if j := h.inFlight("u1").job; j.Grace != 1 {
			t.Errorf("grace %d, want at least 1", j.Grace)
		}
	})
}

func TestRemovedAndAddedAgainWhileEnding(t *testing.T) {
	for _, at := range []State{Terminating, Terminated, Finished} {
		t.Run(at.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *workersHarness) {
				h.bringTo("u1", Syncing)
				h.workers.Remove("u1")
				for h.workers.State("u1") != at {
					h.finish("u1", SyncResult{})
				}
				h.workers.Update(testPod("web", "u1", "r1"))
				synctest.Wait()
				for h.workers.State("u1") != Syncing {
					h.finish("u1", SyncResult{})
				}
				if j := h.inFlight("u1").job; j.Run != 1 {
					t.Errorf("run %d, want a second one", j.Run)
				}
				// Removed permanently in between: the restart is
				// cancelled.
				h.workers.Remove("u1")
				h.workers.Update(testPod("web", "u1", "r1"))
				h.workers.Remove("u1")
				for h.inFlight("u1") != nil {
					h.finish("u1", SyncResult{})
				}
				h.want("u1", None)
			})
		})
	}
}

func TestFixedUIDEdit(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Syncing)
		h.finish("u1", SyncResult{})
		old := h.workers.byUID["u1"].acting
		h.workers.Update(testPod("web", "u1", "r2"))
		h.want("u1", Terminating)
		if j := h.inFlight("u1").job; j.Pod != old {
			t.Error("the old revision is not terminated under its own definition")
		}
		// A second edit within the grace period: only the newest runs.
		h.workers.Update(testPod("web", "u1", "r3"))
		h.finish("u1", SyncResult{})
		h.finish("u1", SyncResult{})
		h.want("u1", Syncing)
		if j := h.inFlight("u1").job; j.Run != 1 || j.Pod.Annotations[podinfo.AnnotationTemplate] != "r3" {
			t.Errorf("run %d of %v", j.Run, j.Pod.Annotations)
		}
	})
}

func TestInPlaceUpdateCancelsTheSyncInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Syncing)
		first := h.inFlight("u1")
		same := testPod("web", "u1", "r1")
		h.workers.Update(same)
		synctest.Wait()
		if first.ctx.Err() != nil {
			t.Error("an equal revision cancelled the sync")
		}
		image := testPod("web", "u1", "r1")
		image.Annotations[podinfo.AnnotationHash] = "other image"
		h.workers.Update(image)
		synctest.Wait()
		if first.ctx.Err() == nil {
			t.Error("the sync of the previous revision continues")
		}
		if j := h.inFlight("u1").job; j.Pod != image || j.Run != 0 {
			t.Error("the newest revision is not the one in flight")
		}
	})
}

func TestDeletedByTheAPIServer(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Syncing)
		deleted := testPod("web", "u1", "r1")
		now, grace := metav1.Now(), int64(7)
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &now, &grace
		h.workers.Update(deleted)
		h.want("u1", Terminating)
		if j := h.inFlight("u1").job; j.Grace != 7 || j.Kill.Reason != KillDeleted {
			t.Errorf("grace %d, %+v", j.Grace, j.Kill)
		}
		hurried := deleted.DeepCopy()
		*hurried.DeletionGracePeriodSeconds = 2
		h.workers.Update(hurried)
		if j := h.inFlight("u1").job; j.Grace != 2 {
			t.Errorf("grace %d after a shorter one", j.Grace)
		}
		for range 3 {
			h.finish("u1", SyncResult{})
		}
		h.want("u1", Finished)
	})
}

func TestRestartErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		if err := h.restart("unknown"); !errors.Is(err, ErrUnknownPod) {
			t.Error(err)
		}
		api := testPod("api", "a1", "r1")
		api.Annotations[podinfo.AnnotationSource] = string(podinfo.SourceAPI)
		h.workers.Update(api)
		if err := h.restart("a1"); !errors.Is(err, ErrAPIPod) {
			t.Error(err)
		}
		h.bringTo("u1", Finished)
		h.workers.Remove("u1")
		if err := h.restart("u1"); !errors.Is(err, ErrUnwantedPod) {
			t.Error(err)
		}
		h.want("u1", Finished)
	})
}

func TestRestartNotBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Syncing)
		at := time.Now().Add(5 * time.Minute)
		if err := h.workers.Restart("u1", "evicted", at); err != nil {
			t.Fatal(err)
		}
		h.finish("u1", SyncResult{})
		h.finish("u1", SyncResult{})
		h.want("u1", Queued)
		time.Sleep(time.Until(at) - time.Nanosecond)
		h.want("u1", Queued)
		time.Sleep(time.Nanosecond)
		h.want("u1", Syncing)
	})
}

func TestFinishedPodThatRunsIsTerminated(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Finished)
		h.finish("u1", SyncResult{})
		h.workers.Orphan(testPod("web", "u1", ""), 30)
		h.want("u1", Terminating)
		h.finish("u1", SyncResult{})
		h.finish("u1", SyncResult{})
		h.finish("u1", SyncResult{})
		h.want("u1", Finished)
	})
}

func TestOrphanGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.workers.Orphan(testPod("db", "o1", ""), 120)
		if j := h.inFlight("o1").job; j.Grace != 120 {
			t.Errorf("grace %d, want 120", j.Grace)
		}
		h.workers.Orphan(testPod("web", "o2", ""), 0)
		if j := h.inFlight("o2").job; j.Grace != 1 {
			t.Errorf("grace %d, want at least 1", j.Grace)
		}
	})
}

func TestPausedWorkersStart(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.workers.Pause(true)
		h.workers.Update(testPod("web", "u1", "r1"))
		h.want("u1", Queued)
		h.workers.Pause(false)
		h.want("u1", Syncing)
		h.finish("u1", SyncResult{Err: errors.New("runtime went away")})
		h.workers.Pause(true)
		at := time.Now()
		h.workers.Pause(false)
		if h.inFlight("u1") == nil || time.Since(at) != 0 {
			t.Error("a failed sync is not retried at once when the runtime is back")
		}
	})
}

// A pod that terminates in a pause gets one job to report that, and its sync after the pause.
func TestPausedWorkersTerminate(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.workers.Update(testPod("web", "u1", "r1"))
		h.finish("u1", SyncResult{})
		h.workers.Pause(true)
		h.workers.Remove("u1")
		for range 2 {
			h.workers.Notify("u1")
			if j := h.inFlight("u1"); j == nil || j.job.State != Terminating || !j.job.Paused {
				t.Fatalf("no job that reports the pause: %+v", j)
			}
			h.finish("u1", SyncResult{})
			h.want("u1", Terminating)
			h.workers.Notify("u1")
			if j := h.inFlight("u1"); j != nil {
				t.Fatalf("it is synced in a pause: %+v", j.job)
			}
			h.workers.Pause(false)
			if j := h.inFlight("u1"); j == nil || j.job.Paused {
				t.Fatalf("it is not synced after the pause: %+v", j)
			}
			h.finish("u1", SyncResult{Err: errors.New("the runtime went away again")})
			h.workers.Pause(true)
		}
		h.workers.Pause(false)
		h.finish("u1", SyncResult{})
		h.finish("u1", SyncResult{})
		h.want("u1", Finished)
	})
}

func TestTimesOfTheNextSync(t *testing.T) {
	for name, c := range map[string]struct {
		out      SyncResult
		min, max time.Duration
	}{
		"success":     {SyncResult{}, 59 * time.Second, 90 * time.Second},
		"error":       {SyncResult{Err: errors.New("x")}, time.Second, 1500 * time.Millisecond},
		"retry after": {SyncResult{Err: errors.New("x"), After: 40 * time.Second}, 40 * time.Second, 40 * time.Second},
		"long":        {SyncResult{After: time.Hour}, time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *workersHarness) {
				h.bringTo("u1", Syncing)
				h.finish("u1", c.out)
				at := time.Now()
				for h.inFlight("u1") == nil && time.Since(at) < 2*time.Hour {
					time.Sleep(time.Second / 10)
				}
				if got := time.Since(at); got < c.min || got > c.max+time.Second/10 {
					t.Errorf("next sync after %s, want %s to %s", got, c.min, c.max)
				}
			})
		})
	}
}

func TestErrorDelayGrowsToTheKubeletsDelay(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second,
		5: 10 * time.Second, 1000: 10 * time.Second} {
		if got := errorDelay(failures); got < want || got > want*3/2 {
			t.Errorf("after %d failures: %s, want %s and up to half as much again", failures, got, want)
		}
	}
}

// Resyncs, which repair what no event reports, follow the monotonic clock.
func TestResyncsFollowTheMonotonicClock(t *testing.T) {
	p := New[int](nil)
	w := &worker{uid: "u", state: Syncing}
	p.schedule(w, SyncResult{})
	at, ok := p.queue.earliest()
	if left := time.Until(at); !ok || !strings.Contains(at.String(), " m=") || left < resyncPeriod-time.Second ||
		left > 2*resyncPeriod {
		t.Errorf("the next sync is due at %s, which setting the clock would move", at)
	}
}

// A client that deletes a pod may choose its grace period: before its source removes the pod, and
// a shorter one while it ends. A pod that stays is not affected.
func TestRemovalGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, h *workersHarness) {
		h.bringTo("u1", Syncing)
		seconds := int64(5)
		h.workers.SetRemovalGrace("u1", &seconds)
		h.want("u1", Syncing)
		h.workers.Remove("u1")
		synctest.Wait()
		h.want("u1", Terminating)
		if grace := h.inFlight("u1").job.Grace; grace != 5 {
			t.Errorf("grace %d, want 5", grace)
		}
		shorter := int64(0)
		h.workers.SetRemovalGrace("u1", &shorter)
		synctest.Wait()
		if grace := h.inFlight("u1").job.Grace; grace != 1 {
			t.Errorf("grace %d, want 1", grace)
		}
		h.workers.SetRemovalGrace("unknown", &shorter)
	})
}
