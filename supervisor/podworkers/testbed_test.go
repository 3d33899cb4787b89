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

// workersBed is podWorkers with scripts that wait to be told their outcome.
type workersBed struct {
	t *testing.T
	p *Workers

	mu      sync.Mutex
	running map[types.UID]*script
	ran     []SyncJob
	// ended is what endedForGood answers.
	ended bool
}

type script struct {
	job     SyncJob
	ctx     context.Context
	outcome chan SyncResult
}

func newWorkersBed(t *testing.T) *workersBed {
	b := &workersBed{t: t, running: map[types.UID]*script{}}
	b.p = New(b)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	b.p.Start(ctx, &wg)
	// The work queue without the sync loop.
	wg.Go(func() {
		for {
			var due <-chan time.Time
			if at, ok := b.p.queue.earliest(); ok {
				due = time.After(time.Until(at))
			}
			select {
			case <-ctx.Done():
				return
			case <-b.p.queue.changed:
			case <-due:
				for {
					uid, ok := b.p.queue.pop(time.Now())
					if !ok {
						break
					}
					b.p.Notify(uid)
				}
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return b
}

func (b *workersBed) Sync(ctx context.Context, j SyncJob, _ *int) SyncResult {
	if j.State == Queued {
		return SyncResult{}
	}
	s := &script{job: j, ctx: ctx, outcome: make(chan SyncResult, 1)}
	b.mu.Lock()
	b.running[uidOf(j)] = s
	b.ran = append(b.ran, j)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.running, uidOf(j))
		b.mu.Unlock()
	}()
	select {
	case out := <-s.outcome:
		return out
	case <-ctx.Done():
		return SyncResult{Err: ctx.Err()}
	}
}

// uidOf is the UID of a job's pod.
func uidOf(j SyncJob) types.UID {
	if j.Pod != nil {
		return j.Pod.UID
	}
	return j.Found.UID
}

// in is the script in flight of a pod, nil if there is none.
func (b *workersBed) in(uid types.UID) *script {
	b.t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running[uid]
}

func (b *workersBed) release(uid types.UID, out SyncResult) {
	if s := b.in(uid); s != nil {
		s.outcome <- out
	}
	synctest.Wait()
}

func (b *workersBed) releaseIf(uid types.UID, st State) {
	if s := b.in(uid); s != nil && s.job.State == st {
		b.release(uid, SyncResult{})
	}
}

func (b *workersBed) rerun(uid types.UID) error {
	return b.p.Restart(uid, "asked", time.Time{}, func(*v1.Pod) bool { return b.ended })
}

// end removes a pod and lets all its scripts succeed.
func (b *workersBed) end(uid types.UID) {
	b.p.Remove(uid)
	for b.in(uid) != nil {
		b.release(uid, SyncResult{})
	}
}

// into brings u1 into a state. Until it is to start, u0 has its name.
func (b *workersBed) into(uid types.UID, want State) {
	b.t.Helper()
	b.p.Update(testPod("web", "u0", "r1"))
	synctest.Wait()
	if want == None {
		return
	}
	b.p.Update(testPod("web", uid, "r1"))
	synctest.Wait()
	if want != Queued {
		b.end("u0")
	}
	for range stateCount {
		if b.p.State(uid) == want {
			return
		}
		if want > Syncing && b.p.State(uid) == Syncing {
			b.release(uid, SyncResult{Ended: true})
		} else {
			b.release(uid, SyncResult{})
		}
	}
	b.t.Fatalf("pod is %s, not %s", b.p.State(uid), want)
}

// testPod is a pod whose annotations say that revision is its template.
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
			Containers: []v1.Container{{
				Name: "app", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent,
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
			}},
		},
	}
}
