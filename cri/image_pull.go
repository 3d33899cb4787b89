package cri

import (
	"context"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// puller makes pulls of which equal ones are shared: who asks for an image
// that is being pulled waits for that pull. A pull ends when nobody waits for
// it any more.
type puller struct {
	service ImageRuntime
	gate    gate

	mu      sync.Mutex
	flights map[string]*flight
}

// flight is one pull under way.
type flight struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{} // closed when what follows is set
	ref     string
	took    time.Duration // without the time spent waiting for a slot
	err     error
}

func newPuller(service ImageRuntime, slots int) *puller {
	return &puller{service: service, gate: newGate(slots), flights: map[string]*flight{}}
}

// pull pulls an image. With atOnce it takes no slot and waits for none.
func (p *puller) pull(ctx context.Context, image string, atOnce bool) (*flight, error) {
	p.mu.Lock()
	f := p.flights[image]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		// The pull outlives the one who asked first, if others wait for it.
		var pullCtx context.Context
		pullCtx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		p.flights[image] = f
		go p.run(pullCtx, f, image, atOnce)
	}
	f.waiters++
	p.mu.Unlock()

	select {
	case <-f.done:
	case <-ctx.Done():
		p.abandon(image, f)
		return nil, context.Cause(ctx)
	}
	return f, f.err
}

// abandon takes one waiter away. The last one ends the pull and sees it end.
func (p *puller) abandon(image string, f *flight) {
	p.mu.Lock()
	f.waiters--
	last := f.waiters == 0
	if last && p.flights[image] == f {
		// Who comes now begins a new pull: this one will be cancelled.
		delete(p.flights, image)
	}
	p.mu.Unlock()
	if last {
		f.cancel()
		<-f.done
	}
}

// run makes the pull of a flight and lands it.
func (p *puller) run(ctx context.Context, f *flight, image string, atOnce bool) {
	f.ref, f.took, f.err = p.one(ctx, image, atOnce)
	p.mu.Lock()
	if p.flights[image] == f {
		delete(p.flights, image)
	}
	p.mu.Unlock()
	f.cancel()
	close(f.done)
}

func (p *puller) one(ctx context.Context, image string, atOnce bool) (ref string, took time.Duration, err error) {
	if !atOnce {
		leave, err := p.gate.enter(ctx)
		if err != nil {
			return "", 0, err
		}
		defer leave()
	}
	begun := time.Now()
	ref, err = p.service.PullImage(ctx, image, (*runtimeapi.AuthConfig)(nil))
	return ref, time.Since(begun), err
}
