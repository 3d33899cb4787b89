package podworkers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

func bubble(t *testing.T, f func(t *testing.T, b *workersBed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorkersBed(t)) })
}

func (b *workersBed) want(uid types.UID, want State) {
	b.t.Helper()
	synctest.Wait()
	if got := b.p.State(uid); got != want {
		b.t.Fatalf("pod %s is %s, want %s", uid, got, want)
	}
}

func TestSuccessorIsWokenAndDoesNotPoll(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", Syncing)
		b.release("u1", SyncResult{})
		b.p.Remove("u1")
		b.p.Update(testPod("web", "u2", "r2"))
		b.want("u2", Queued)
		time.Sleep(7 * time.Second)
		at := time.Now()
		b.releaseIf("u1", Terminating)
		b.want("u2", Queued)
		b.releaseIf("u1", Terminated)
		b.want("u2", Syncing)
		if waited := time.Since(at); waited != 0 {
			t.Errorf("successor started %s after its predecessor had ended", waited)
		}
	})
}

// A second edit inside the grace period (k/k#97722): what came between never runs.
func TestSecondEditWithinGrace(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", Syncing)
		b.p.Remove("u1")
		b.p.Update(testPod("web", "u2", "r2"))
		synctest.Wait()
		b.p.Remove("u2")
		b.p.Update(testPod("web", "u3", "r3"))
		b.releaseIf("u2", Terminating)
		b.releaseIf("u2", Terminated)
		b.releaseIf("u2", Finished)
		b.want("u3", Queued)
		b.releaseIf("u1", Terminating)
		b.releaseIf("u1", Terminated)
		b.want("u3", Syncing)
		for _, j := range b.ran {
			if j.Pod.UID == "u2" && j.State == Syncing {
				t.Error("the edit between was run")
			}
		}
	})
}

func TestWaitersStartInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", Syncing)
		b.p.Update(testPod("web", "u2", "r2"))
		b.p.Update(testPod("web", "u3", "r3"))
		b.end("u1")
		b.want("u2", Syncing)
		b.want("u3", Queued)
		b.end("u2")
		b.want("u3", Syncing)
	})
}

func TestKillIsNotOverwritten(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", Syncing)
		first := b.in("u1")
		b.p.Remove("u1")
		synctest.Wait()
		if first.ctx.Err() == nil {
			t.Error("the sync in flight was not cancelled by the kill")
		}
		b.p.Update(testPod("web", "u1", "r1"))
		b.p.Update(testPod("web", "u1", "r9"))
		b.want("u1", Terminating)
		if j := b.in("u1").job; j.Kill == nil || j.Kill.Reason != KillRemoved {
			t.Errorf("kill is %+v", j.Kill)
		}
	})
}

func TestGraceOnlyShrinks(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", Syncing)
		b.p.Remove("u1")
		killing := b.in("u1")
		if killing.job.Grace != 30 {
			t.Fatalf("grace %d, want the pod's 30", killing.job.Grace)
		}
		hurry := func(seconds int64) {
			b.p.mu.Lock()
			b.p.end(b.p.byUID["u1"], onKill, KillOrder{Reason: "Later", Grace: &seconds})
			b.p.mu.Unlock()
			synctest.Wait()
		}
		hurry(60)
		if killing.ctx.Err() != nil || b.in("u1") != killing {
			t.Error("a longer grace disturbed the kill")
		}
		hurry(5)
		if killing.ctx.Err() == nil {
			t.Error("a shorter grace did not cancel the kill in flight")
		}
		if j := b.in("u1").job; j.Grace != 5 || j.Kill.Reason != KillRemoved {
			t.Errorf("grace %d reason %s, want 5 and the first reason", j.Grace, j.Kill.Reason)
		}
		hurry(0)
		if j := b.in("u1").job; j.Grace != 1 {
			t.Errorf("grace %d, want at least 1", j.Grace)
		}
	})
}

func TestRemovedAndAddedAgainWhileEnding(t *testing.T) {
	for _, at := range []State{Terminating, Terminated, Finished} {
		t.Run(at.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, b *workersBed) {
				b.into("u1", Syncing)
				b.p.Remove("u1")
				for b.p.State("u1") != at {
					b.release("u1", SyncResult{})
				}
				b.p.Update(testPod("web", "u1", "r1"))
				synctest.Wait()
				for b.p.State("u1") != Syncing {
					b.release("u1", SyncResult{})
				}
				if j := b.in("u1").job; j.Run != 1 {
					t.Errorf("run %d, want a second one", j.Run)
				}
				// And removed for good in between: the rerun is off.
				b.p.Remove("u1")
				b.p.Update(testPod("web", "u1", "r1"))
				b.p.Remove("u1")
				for b.in("u1") != nil {
					b.release("u1", SyncResult{})
				}
				b.want("u1", None)
			})
		})
	}
}

func TestFixedUIDEdit(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", Syncing)
		b.release("u1", SyncResult{})
		old := b.p.byUID["u1"].acting
		b.p.Update(testPod("web", "u1", "r2"))
		b.want("u1", Terminating)
		if j := b.in("u1").job; j.Pod != old {
			t.Error("the old revision is not ended as what it is")
		}
		// A second edit within the grace: only the newest runs.
		b.p.Update(testPod("web", "u1", "r3"))
		b.release("u1", SyncResult{})
		b.release("u1", SyncResult{})
		b.want("u1", Syncing)
		if j := b.in("u1").job; j.Run != 1 || j.Pod.Annotations[podinfo.AnnotationTemplate] != "r3" {
			t.Errorf("run %d of %v", j.Run, j.Pod.Annotations)
		}
	})
}

func TestInPlaceUpdateCancelsTheSyncInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", Syncing)
		first := b.in("u1")
		same := testPod("web", "u1", "r1")
		b.p.Update(same)
		synctest.Wait()
		if first.ctx.Err() != nil {
			t.Error("an equal revision cancelled the sync")
		}
		image := testPod("web", "u1", "r1")
		image.Annotations[podinfo.AnnotationHash] = "other image"
		b.p.Update(image)
		synctest.Wait()
		if first.ctx.Err() == nil {
			t.Error("the sync of the revision before goes on")
		}
		if j := b.in("u1").job; j.Pod != image || j.Run != 0 {
			t.Error("the newest revision is not the one in flight")
		}
	})
}

func TestDeletedByTheAPIServer(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", Syncing)
		deleted := testPod("web", "u1", "r1")
		now, grace := metav1.Now(), int64(7)
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &now, &grace
		b.p.Update(deleted)
		b.want("u1", Terminating)
		if j := b.in("u1").job; j.Grace != 7 || j.Kill.Reason != KillDeleted {
			t.Errorf("grace %d, %+v", j.Grace, j.Kill)
		}
		hurried := deleted.DeepCopy()
		*hurried.DeletionGracePeriodSeconds = 2
		b.p.Update(hurried)
		if j := b.in("u1").job; j.Grace != 2 {
			t.Errorf("grace %d after a shorter one", j.Grace)
		}
		for range 3 {
			b.release("u1", SyncResult{})
		}
		b.want("u1", Finished)
	})
}

func TestRerunIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		if err := b.rerun("nobody"); !errors.Is(err, ErrUnknownPod) {
			t.Error(err)
		}
		api := testPod("api", "a1", "r1")
		api.Annotations[podinfo.AnnotationSource] = string(podinfo.SourceAPI)
		b.p.Update(api)
		if err := b.rerun("a1"); !errors.Is(err, ErrAPIPod) {
			t.Error(err)
		}
		b.into("u1", Finished)
		b.ended = true
		if err := b.rerun("u1"); !errors.Is(err, ErrPodEnded) {
			t.Error(err)
		}
		b.ended = false
		b.p.Remove("u1")
		if err := b.rerun("u1"); !errors.Is(err, ErrUnwantedPod) {
			t.Error(err)
		}
		b.want("u1", Finished)
	})
}

func TestRerunNotBefore(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", Syncing)
		at := time.Now().Add(5 * time.Minute)
		if err := b.p.Restart("u1", "evicted", at, func(*v1.Pod) bool { return false }); err != nil {
			t.Fatal(err)
		}
		b.release("u1", SyncResult{})
		b.release("u1", SyncResult{})
		b.want("u1", Queued)
		time.Sleep(time.Until(at) - time.Nanosecond)
		b.want("u1", Queued)
		time.Sleep(time.Nanosecond)
		b.want("u1", Syncing)
	})
}

func TestFinishedPodThatRunsIsEndedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", Finished)
		b.release("u1", SyncResult{})
		b.p.Orphan(testPod("web", "u1", ""), 30)
		b.want("u1", Terminating)
		b.release("u1", SyncResult{})
		b.release("u1", SyncResult{})
		b.release("u1", SyncResult{})
		b.want("u1", Finished)
	})
}

func TestOrphanGrace(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.p.Orphan(testPod("db", "o1", ""), 120)
		if j := b.in("o1").job; j.Grace != 120 {
			t.Errorf("grace %d, want 120", j.Grace)
		}
		b.p.Orphan(testPod("web", "o2", ""), 0)
		if j := b.in("o2").job; j.Grace != 1 {
			t.Errorf("grace %d, want at least 1", j.Grace)
		}
	})
}

func TestPausedWorkersStart(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.p.Pause(true)
		b.p.Update(testPod("web", "u1", "r1"))
		b.want("u1", Queued)
		b.p.Pause(false)
		b.want("u1", Syncing)
		b.release("u1", SyncResult{Err: errors.New("runtime went away")})
		b.p.Pause(true)
		at := time.Now()
		b.p.Pause(false)
		if b.in("u1") == nil || time.Since(at) != 0 {
			t.Error("what failed is not tried again at once when the runtime is back")
		}
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
			bubble(t, func(t *testing.T, b *workersBed) {
				b.into("u1", Syncing)
				b.release("u1", c.out)
				at := time.Now()
				for b.in("u1") == nil && time.Since(at) < 2*time.Hour {
					time.Sleep(time.Second / 10)
				}
				if got := time.Since(at); got < c.min || got > c.max+time.Second/10 {
					t.Errorf("next sync after %s, want %s to %s", got, c.min, c.max)
				}
			})
		})
	}
}

// TestWorkersUnderRandomOrders: whatever is asked in whatever order, one pod of
// a name is started at most, and when all is let go what is wanted last runs.
func TestWorkersUnderRandomOrders(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, b *workersBed) {
				rnd := rand.New(rand.NewPCG(seed, 7))
				uids := []types.UID{"u1", "u2", "u3"}
				wanted := map[types.UID]string{}
				for range 200 {
					uid := uids[rnd.IntN(len(uids))]
					switch rnd.IntN(9) {
					case 0, 1:
						// As sources do it: one pod of a name is wanted.
						for other := range wanted {
							if other != uid {
								b.p.Remove(other)
								delete(wanted, other)
							}
						}
						wanted[uid] = fmt.Sprint("r", rnd.IntN(2))
						b.p.Update(testPod("web", uid, wanted[uid]))
					case 2:
						b.p.Remove(uid)
						delete(wanted, uid)
					case 3:
						b.release(uid, SyncResult{Err: errors.New("no")})
					case 4:
						_ = b.rerun(uid)
					case 5:
						time.Sleep(time.Duration(rnd.IntN(20)) * time.Second)
					case 6:
						_ = b.p.Disrupt(uid, status.Disruption{Reason: "Evicted"}, nil)
					default:
						b.release(uid, SyncResult{})
					}
					b.checkOneStarted()
				}
				for range 20 {
					time.Sleep(ErrorBackoff) // what failed comes again
					b.p.notifyIf(func(w *worker) bool { return w.disrupted })
					for _, uid := range uids {
						b.release(uid, SyncResult{Restart: true})
						b.checkOneStarted()
					}
				}
				for _, uid := range uids {
					want := None
					if _, ok := wanted[uid]; ok {
						want = Syncing
					}
					b.want(uid, want)
				}
			})
		})
	}
}

func (b *workersBed) checkOneStarted() {
	b.t.Helper()
	synctest.Wait()
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	started := 0
	for _, w := range b.p.byUID {
		// One that was removed before it started ends without a start.
		if w.state == Syncing || w.acting != nil && w.holdsName() {
			started++
		}
	}
	if started > 1 {
		b.t.Fatalf("%d pods of one name are started", started)
	}
}

func TestErrorDelayGrowsToTheKubelets(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 1000: 10 * time.Second} {
		if got := errorDelay(failures); got < want || got > want*3/2 {
			t.Errorf("after %d failures: %s, want %s and up to half as much again", failures, got, want)
		}
	}
}

// The resyncs, which mend what nothing tells of, come by the clock that nobody
// sets.
func TestResyncsDoNotGoByTheTimeOfDay(t *testing.T) {
	p := New[int](nil)
	w := &worker{uid: "u", state: Syncing}
	p.schedule(w, SyncResult{})
	at, ok := p.queue.earliest()
	if left := time.Until(at); !ok || !strings.Contains(at.String(), " m=") || left < resyncPeriod-time.Second || left > 2*resyncPeriod {
		t.Errorf("the next look is due at %s, which a clock that is set moves", at)
	}
}
