package supervisor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/critest"
)

// performed counts the hooks that completed, by container ID and command.
type performed struct {
	mu   sync.Mutex
	ends map[string]int
}

func performing(f *critest.Fake, takes time.Duration) *performed {
	p := &performed{ends: map[string]int{}}
	f.OnExec(func(ctx context.Context, c critest.Container, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse,
		error) {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ends[c.ID+" "+r.Cmd[0]]++
		return &runtimeapi.ExecSyncResponse{}, nil
	})
	return p
}

func (p *performed) times(id, command string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends[id+" "+command]
}

// TestHooksAtRandomPoints: whenever the daemon is killed and started again, a
// postStart and a preStop hook complete at least once, and nothing is started
// twice because of them.
func TestHooksAtRandomPoints(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				rnd := rand.New(rand.NewPCG(seed, 7))
				hooks := performing(b.fake, 40*time.Millisecond)
				b.fake.Latency("*", 5*time.Millisecond)
				b.fake.Behave("app", critest.Behaviour{StopAfter: 30 * time.Millisecond})
				var desired []*v1.Pod
				// ended holds the containers whose exit was observed,
				// since in the end nothing is left of them.
				ended := map[string]bool{}
				look := func() {
					for _, c := range b.fake.Containers() {
						if c.State == runtimeapi.ContainerState_CONTAINER_EXITED && !c.StartedAt.IsZero() {
							ended[c.ID] = true
						}
					}
				}
				for round := range 20 {
					pod := testPod(fmt.Sprint("web", round), types.UID(fmt.Sprint("u", round)), "r1")
					pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: execHook("begin"), PreStop: execHook("end")}
					desired = append(desired, pod)
					if len(desired) > 3 {
						i := rnd.IntN(len(desired))
						desired = slices.Delete(desired, i, i+1)
					}
					if b.daemon == nil {
						b.start()
					}
					b.daemon.config.deliver(file, desired...)
					for range rnd.IntN(60) {
						b.after(5 * time.Millisecond)
						look()
					}
					b.restart(desired...)
				}
				for range 2000 {
					b.after(5 * time.Millisecond)
					look()
				}
				b.after(10 * time.Minute)
				b.converged(desired, "")
				for _, c := range b.fake.Containers() {
					if n := b.fake.Starts(c.UID, "app"); n != 1 || hooks.times(c.ID, "begin") < 1 {
						t.Errorf("container of %s was started %d times, its hook completed %d times", c.UID, n,
							hooks.times(c.ID, "begin"))
					}
				}
				if len(ended) < 5 {
					t.Errorf("the exit of %d containers was observed", len(ended))
				}
				for id := range ended {
					if hooks.times(id, "end") < 1 {
						t.Errorf("container %s exited without its hook", id)
					}
				}
			})
		})
	}
}
