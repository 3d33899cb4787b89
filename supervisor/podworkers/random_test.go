package podworkers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/supervisor/status"
)

// TestRandomOperations checks that at most one pod of a name is started,
// whatever the order of operations, and that in the end the desired pod runs.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *workersHarness) {
				rnd := rand.New(rand.NewPCG(seed, 7))
				uids := []types.UID{"u1", "u2", "u3"}
				desired := map[types.UID]string{}
				for range 200 {
					uid := uids[rnd.IntN(len(uids))]
					switch rnd.IntN(9) {
					case 0, 1:
						// As for sources: one pod of a name is desired.
						for other := range desired {
							if other != uid {
								h.workers.Remove(other)
								delete(desired, other)
							}
						}
						desired[uid] = fmt.Sprint("r", rnd.IntN(2))
						h.workers.Update(testPod("web", uid, desired[uid]))
					case 2:
						h.workers.Remove(uid)
						delete(desired, uid)
					case 3:
						h.finish(uid, SyncResult{Err: errors.New("no")})
					case 4:
						_ = h.restart(uid)
					case 5:
						time.Sleep(time.Duration(rnd.IntN(20)) * time.Second)
					case 6:
						_ = h.workers.Disrupt(uid, status.Disruption{Reason: "Evicted"}, nil)
					default:
						h.finish(uid, SyncResult{})
					}
					h.checkOneStarted()
				}
				for range 20 {
					time.Sleep(ErrorBackoff) // failed syncs are retried
					h.workers.notifyIf(func(w *worker) bool { return w.disrupted })
					for _, uid := range uids {
						h.finish(uid, SyncResult{Restart: true})
						h.checkOneStarted()
					}
				}
				for _, uid := range uids {
					want := None
					if _, ok := desired[uid]; ok {
						want = Syncing
					}
					h.want(uid, want)
				}
			})
		})
	}
}

func (h *workersHarness) checkOneStarted() {
	h.t.Helper()
	synctest.Wait()
	h.workers.mu.Lock()
	defer h.workers.mu.Unlock()
	started := 0
	for _, w := range h.workers.byUID {
		// A pod that was removed before it started ends without a start.
		if w.state == Syncing || w.acting != nil && w.holdsName() {
			started++
		}
	}
	if started > 1 {
		h.t.Fatalf("%d pods of one name are started", started)
	}
}
