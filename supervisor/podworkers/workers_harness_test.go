package podworkers

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// workersHarness is Workers with a Syncer whose syncs wait for the test to finish them. A
// sync of a queued pod finishes at once.
type workersHarness struct {
	t       *testing.T
	workers *Workers

	mu      sync.Mutex
	running map[types.UID]*heldSync
	started []SyncJob
}

// heldSync is a sync in flight.
type heldSync struct {
	job    SyncJob
	ctx    context.Context
	result chan SyncResult
}

// inBubble runs a test with its workersHarness in a bubble of synthetic time.
func inBubble(t *testing.T, f func(t *testing.T, h *workersHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorkersHarness(t)) })
}

func newWorkersHarness(t *testing.T) *workersHarness {
	h := &workersHarness{t: t, running: map[types.UID]*heldSync{}}
	h.workers = New(h)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	h.workers.Start(ctx, &wg)
	// The part of the sync loop that serves the work queue.
	wg.Go(func() {
		for {
			var due <-chan time.Time
			if at, ok := h.workers.NextDue(); ok {
				due = time.After(time.Until(at))
			}
			select {
			case <-ctx.Done():
				return
			case <-h.workers.QueueChanged():
			case <-due:
				h.workers.NotifyDue(time.Now())
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return h
}

func (h *workersHarness) Sync(ctx context.Context, job SyncJob, _ *int) SyncResult {
	if job.State == Queued {
		return SyncResult{}
	}
	s := &heldSync{job: job, ctx: ctx, result: make(chan SyncResult, 1)}
	uid := uidOf(job)
	h.mu.Lock()
	h.running[uid] = s
	h.started = append(h.started, job)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.running, uid)
		h.mu.Unlock()
	}()
	select {
	case result := <-s.result:
		return result
	case <-ctx.Done():
		return SyncResult{Err: ctx.Err()}
	}
}

func uidOf(job SyncJob) types.UID {
	if job.Pod != nil {
		return job.Pod.UID
	}
	return job.Found.UID
}

// inFlight returns the sync in flight of a pod, nil if there is none.
func (h *workersHarness) inFlight(uid types.UID) *heldSync {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running[uid]
}

// finish finishes the sync in flight of a pod, if there is one.
func (h *workersHarness) finish(uid types.UID, result SyncResult) {
	if s := h.inFlight(uid); s != nil {
		s.result <- result
	}
	synctest.Wait()
}

// finishIf finishes the sync in flight with success if it is for a state.
func (h *workersHarness) finishIf(uid types.UID, state State) {
	if s := h.inFlight(uid); s != nil && s.job.State == state {
		h.finish(uid, SyncResult{})
	}
}

func (h *workersHarness) restart(uid types.UID) error {
	return h.workers.Restart(uid, "requested", time.Time{})
}

// end removes a pod and lets all its syncs succeed.
func (h *workersHarness) end(uid types.UID) {
	h.workers.Remove(uid)
	for h.inFlight(uid) != nil {
		h.finish(uid, SyncResult{})
	}
}

// bringTo brings a pod into a state. Until it may start, pod u0 holds its name.
func (h *workersHarness) bringTo(uid types.UID, want State) {
	h.t.Helper()
	h.workers.Update(testPod("web", "u0", "r1"))
	synctest.Wait()
	if want == None {
		return
	}
	h.workers.Update(testPod("web", uid, "r1"))
	synctest.Wait()
	if want != Queued {
		h.end("u0")
	}
	for range stateCount {
		if h.workers.State(uid) == want {
			return
		}
		if want > Syncing && h.workers.State(uid) == Syncing {
			h.finish(uid, SyncResult{Ended: true})
		} else {
			h.finish(uid, SyncResult{})
		}
	}
	h.t.Fatalf("pod is %s, not %s", h.workers.State(uid), want)
}

func (h *workersHarness) want(uid types.UID, want State) {
	h.t.Helper()
	synctest.Wait()
	if got := h.workers.State(uid); got != want {
		h.t.Fatalf("pod %s is %s, want %s", uid, got, want)
	}
}

// testPod returns a static pod whose annotations specify that revision is its template.
func testPod(name string, uid types.UID, revision string) *v1.Pod {
	grace := int64(30)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: uid,
			Annotations: map[string]string{
				podinfo.AnnotationSource:   string(podinfo.SourceFile),
				podinfo.AnnotationHash:     revision,
				podinfo.AnnotationTemplate: revision,
			},
		},
		Spec: v1.PodSpec{
			RestartPolicy:                 v1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []v1.Container{{Name: "app", Image: "img:1"}},
		},
	}
}
