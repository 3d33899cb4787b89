package supervisor

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

func bubble(t *testing.T, f func(t *testing.T, b *workersBed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorkersBed(t)) })
}

func (b *workersBed) want(uid types.UID, want state) {
	b.t.Helper()
	synctest.Wait()
	if got := b.p.state(uid); got != want {
		b.t.Fatalf("pod %s is %s, want %s", uid, got, want)
	}
}

func TestSuccessorIsWokenAndDoesNotPoll(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", stateSyncing)
		b.release("u1", syncResult{})
		b.p.remove("u1")
		b.p.update(testPod("web", "u2", "r2"))
		b.want("u2", stateQueued)
		time.Sleep(7 * time.Second)
		at := time.Now()
		b.releaseIf("u1", stateTerminating)
		b.want("u2", stateQueued)
		b.releaseIf("u1", stateTerminated)
		b.want("u2", stateSyncing)
		if waited := time.Since(at); waited != 0 {
			t.Errorf("successor started %s after its predecessor had ended", waited)
		}
	})
}

// A second edit inside the grace period (k/k#97722): what came between never runs.
func TestSecondEditWithinGrace(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", stateSyncing)
		b.p.remove("u1")
		b.p.update(testPod("web", "u2", "r2"))
		synctest.Wait()
		b.p.remove("u2")
		b.p.update(testPod("web", "u3", "r3"))
		b.releaseIf("u2", stateTerminating)
		b.releaseIf("u2", stateTerminated)
		b.releaseIf("u2", stateFinished)
		b.want("u3", stateQueued)
		b.releaseIf("u1", stateTerminating)
		b.releaseIf("u1", stateTerminated)
		b.want("u3", stateSyncing)
		for _, j := range b.ran {
			if j.pod.UID == "u2" && j.state == stateSyncing {
				t.Error("the edit between was run")
			}
		}
	})
}

func TestWaitersStartInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", stateSyncing)
		b.p.update(testPod("web", "u2", "r2"))
		b.p.update(testPod("web", "u3", "r3"))
		b.end("u1")
		b.want("u2", stateSyncing)
		b.want("u3", stateQueued)
		b.end("u2")
		b.want("u3", stateSyncing)
	})
}

func TestKillIsNotOverwritten(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", stateSyncing)
		first := b.in("u1")
		b.p.remove("u1")
		synctest.Wait()
		if first.ctx.Err() == nil {
			t.Error("the sync in flight was not cancelled by the kill")
		}
		b.p.update(testPod("web", "u1", "r1"))
		b.p.update(testPod("web", "u1", "r9"))
		b.want("u1", stateTerminating)
		if j := b.in("u1").job; j.kill == nil || j.kill.reason != killRemoved {
			t.Errorf("kill is %+v", j.kill)
		}
	})
}

func TestGraceOnlyShrinks(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", stateSyncing)
		b.p.remove("u1")
		killing := b.in("u1")
		if killing.job.grace != 30 {
			t.Fatalf("grace %d, want the pod's 30", killing.job.grace)
		}
		hurry := func(seconds int64) {
			b.p.mu.Lock()
			b.p.end(b.p.byUID["u1"], onKill, killOrder{reason: "Later", grace: &seconds})
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
		if j := b.in("u1").job; j.grace != 5 || j.kill.reason != killRemoved {
			t.Errorf("grace %d reason %s, want 5 and the first reason", j.grace, j.kill.reason)
		}
		hurry(0)
		if j := b.in("u1").job; j.grace != 1 {
			t.Errorf("grace %d, want at least 1", j.grace)
		}
	})
}

func TestRemovedAndAddedAgainWhileEnding(t *testing.T) {
	for _, at := range []state{stateTerminating, stateTerminated, stateFinished} {
		t.Run(at.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, b *workersBed) {
				b.into("u1", stateSyncing)
				b.p.remove("u1")
				for b.p.state("u1") != at {
					b.release("u1", syncResult{})
				}
				b.p.update(testPod("web", "u1", "r1"))
				synctest.Wait()
				for b.p.state("u1") != stateSyncing {
					b.release("u1", syncResult{})
				}
				if j := b.in("u1").job; j.run != 1 {
					t.Errorf("run %d, want a second one", j.run)
				}
				// And removed for good in between: the rerun is off.
				b.p.remove("u1")
				b.p.update(testPod("web", "u1", "r1"))
				b.p.remove("u1")
				for b.in("u1") != nil {
					b.release("u1", syncResult{})
				}
				b.want("u1", stateNone)
			})
		})
	}
}

func TestFixedUIDEdit(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", stateSyncing)
		b.release("u1", syncResult{})
		old := b.p.byUID["u1"].acting
		b.p.update(testPod("web", "u1", "r2"))
		b.want("u1", stateTerminating)
		if j := b.in("u1").job; j.pod != old {
			t.Error("the old revision is not ended as what it is")
		}
		// A second edit within the grace: only the newest runs.
		b.p.update(testPod("web", "u1", "r3"))
		b.release("u1", syncResult{})
		b.release("u1", syncResult{})
		b.want("u1", stateSyncing)
		if j := b.in("u1").job; j.run != 1 || j.pod.Annotations[manifest.AnnotationTemplate] != "r3" {
			t.Errorf("run %d of %v", j.run, j.pod.Annotations)
		}
	})
}

func TestInPlaceUpdateCancelsTheSyncInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", stateSyncing)
		first := b.in("u1")
		same := testPod("web", "u1", "r1")
		b.p.update(same)
		synctest.Wait()
		if first.ctx.Err() != nil {
			t.Error("an equal revision cancelled the sync")
		}
		image := testPod("web", "u1", "r1")
		image.Annotations[podinfo.AnnotationHash] = "other image"
		b.p.update(image)
		synctest.Wait()
		if first.ctx.Err() == nil {
			t.Error("the sync of the revision before goes on")
		}
		if j := b.in("u1").job; j.pod != image || j.run != 0 {
			t.Error("the newest revision is not the one in flight")
		}
	})
}

func TestDeletedByTheAPIServer(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", stateSyncing)
		deleted := testPod("web", "u1", "r1")
		now, grace := metav1.Now(), int64(7)
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &now, &grace
		b.p.update(deleted)
		b.want("u1", stateTerminating)
		if j := b.in("u1").job; j.grace != 7 || j.kill.reason != killDeleted {
			t.Errorf("grace %d, %+v", j.grace, j.kill)
		}
		hurried := deleted.DeepCopy()
		*hurried.DeletionGracePeriodSeconds = 2
		b.p.update(hurried)
		if j := b.in("u1").job; j.grace != 2 {
			t.Errorf("grace %d after a shorter one", j.grace)
		}
		for range 3 {
			b.release("u1", syncResult{})
		}
		b.want("u1", stateFinished)
	})
}

func TestRerunIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		if err := b.rerun("nobody"); !errors.Is(err, errUnknownPod) {
			t.Error(err)
		}
		api := testPod("api", "a1", "r1")
		api.Annotations[podinfo.AnnotationSource] = string(manifest.SourceAPI)
		b.p.update(api)
		if err := b.rerun("a1"); !errors.Is(err, errAPIPod) {
			t.Error(err)
		}
		b.into("u1", stateFinished)
		b.ended = true
		if err := b.rerun("u1"); !errors.Is(err, errPodEnded) {
			t.Error(err)
		}
		b.ended = false
		b.p.remove("u1")
		if err := b.rerun("u1"); !errors.Is(err, errUnwantedPod) {
			t.Error(err)
		}
		b.want("u1", stateFinished)
	})
}

func TestRerunNotBefore(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", stateSyncing)
		at := time.Now().Add(5 * time.Minute)
		if err := b.p.rerun("u1", "evicted", at, func(*v1.Pod) bool { return false }); err != nil {
			t.Fatal(err)
		}
		b.release("u1", syncResult{})
		b.release("u1", syncResult{})
		b.want("u1", stateQueued)
		time.Sleep(time.Until(at) - time.Nanosecond)
		b.want("u1", stateQueued)
		time.Sleep(time.Nanosecond)
		b.want("u1", stateSyncing)
	})
}

func TestFinishedPodThatRunsIsEndedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.into("u1", stateFinished)
		b.release("u1", syncResult{})
		b.p.orphan(&cri.Pod{UID: "u1", Name: "web", Namespace: "default"})
		b.want("u1", stateTerminating)
		b.release("u1", syncResult{})
		b.release("u1", syncResult{})
		b.release("u1", syncResult{})
		b.want("u1", stateFinished)
	})
}

func TestOrphanKeepsItsGrace(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		grace := int64(120)
		b.p.orphan(&cri.Pod{UID: "o1", Name: "db", Namespace: "default", Containers: []cri.Container{{Name: "db", TerminationGracePeriod: &grace}}})
		if j := b.in("o1").job; j.grace != 120 {
			t.Errorf("grace %d, want the 120 written on the container", j.grace)
		}
		b.p.orphan(&cri.Pod{UID: "o2", Name: "web", Namespace: "default"})
		if j := b.in("o2").job; j.grace != 30 {
			t.Errorf("grace %d, want the default", j.grace)
		}
	})
}

func TestPausedWorkersStart(t *testing.T) {
	bubble(t, func(t *testing.T, b *workersBed) {
		b.p.pause(true)
		b.p.update(testPod("web", "u1", "r1"))
		b.want("u1", stateQueued)
		b.p.pause(false)
		b.want("u1", stateSyncing)
		b.release("u1", syncResult{err: errors.New("runtime went away")})
		b.p.pause(true)
		at := time.Now()
		b.p.pause(false)
		if b.in("u1") == nil || time.Since(at) != 0 {
			t.Error("what failed is not tried again at once when the runtime is back")
		}
	})
}

func TestTimesOfTheNextSync(t *testing.T) {
	for name, c := range map[string]struct {
		out      syncResult
		min, max time.Duration
	}{
		"success":     {syncResult{}, 59 * time.Second, 90 * time.Second},
		"error":       {syncResult{err: errors.New("x")}, time.Second, 1500 * time.Millisecond},
		"retry after": {syncResult{err: errors.New("x"), after: 40 * time.Second}, 40 * time.Second, 40 * time.Second},
		"long":        {syncResult{after: time.Hour}, time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *workersBed) {
				b.into("u1", stateSyncing)
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
	for seed := range seeds(60) {
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
								b.p.remove(other)
								delete(wanted, other)
							}
						}
						wanted[uid] = fmt.Sprint("r", rnd.IntN(2))
						b.p.update(testPod("web", uid, wanted[uid]))
					case 2:
						b.p.remove(uid)
						delete(wanted, uid)
					case 3:
						b.release(uid, syncResult{err: errors.New("no")})
					case 4:
						_ = b.rerun(uid)
					case 5:
						time.Sleep(time.Duration(rnd.IntN(20)) * time.Second)
					case 6:
						_ = b.p.displace(uid, status.Disruption{Reason: "Evicted"}, nil)
					default:
						b.release(uid, syncResult{})
					}
					b.checkOneStarted()
				}
				for range 20 {
					time.Sleep(errorBackoff) // what failed comes again
					b.p.wakeIf(func(w *worker) bool { return w.displaced })
					for _, uid := range uids {
						b.release(uid, syncResult{restart: true})
						b.checkOneStarted()
					}
				}
				for _, uid := range uids {
					want := stateNone
					if _, ok := wanted[uid]; ok {
						want = stateSyncing
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
		if w.state == stateSyncing || w.acting != nil && w.holdsName() {
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
