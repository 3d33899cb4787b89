package cri

import (
	"context"
	"sync"
	"time"
)

// puller makes pulls of which equal ones are shared: who asks for an image
// that is being pulled waits for that pull. A pull ends when nobody waits for
// it any more.
type puller struct {
	service ImageRuntime
	limiter pullLimiter

	mu       sync.Mutex
	inflight map[pullKey]*inflightPull
}

// pullKey is what pulls share that are one. A pull with other credentials is
// another: who has none must not profit from who has.
type pullKey struct{ image, login string }

// flight is one pull under way.
type inflightPull struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{} // closed when what follows is set
	ref     string
	took    time.Duration // without the time spent waiting for a slot
	err     error
}

func newPuller(service ImageRuntime, slots int) *puller {
	return &puller{service: service, limiter: newPullLimiter(slots), inflight: map[pullKey]*inflightPull{}}
}

// order is a pull to be made. With atOnce it takes no slot and waits for none.
type pullRequest struct {
	image    string
	logins   []Credential
	unqueued bool
}

func (o pullRequest) key() pullKey { return pullKey{o.image, credentialsKey(o.logins)} }

// pull pulls an image.
func (p *puller) pull(ctx context.Context, o pullRequest) (*inflightPull, error) {
	key := o.key()
	p.mu.Lock()
	f := p.inflight[key]
	if f == nil {
		f = &inflightPull{done: make(chan struct{})}
		// The pull outlives the one who asked first, if others wait for it.
		var pullCtx context.Context
		pullCtx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		p.inflight[key] = f
		go p.run(pullCtx, f, o)
	}
	f.waiters++
	p.mu.Unlock()

	select {
	case <-f.done:
	case <-ctx.Done():
		p.abandon(key, f)
		return nil, context.Cause(ctx)
	}
	return f, f.err
}

// abandon takes one waiter away. The last one ends the pull and sees it end.
func (p *puller) abandon(key pullKey, f *inflightPull) {
	p.mu.Lock()
	f.waiters--
	last := f.waiters == 0
	if last && p.inflight[key] == f {
		// Who comes now begins a new pull: this one will be cancelled.
		delete(p.inflight, key)
	}
	p.mu.Unlock()
	if last {
		f.cancel()
		<-f.done
	}
}

// run makes the pull of a flight and lands it.
func (p *puller) run(ctx context.Context, f *inflightPull, o pullRequest) {
	f.ref, f.took, f.err = p.pullQueued(ctx, o)
	p.mu.Lock()
	if key := o.key(); p.inflight[key] == f {
		delete(p.inflight, key)
	}
	p.mu.Unlock()
	f.cancel()
	close(f.done)
}

func (p *puller) pullQueued(ctx context.Context, o pullRequest) (ref string, took time.Duration, err error) {
	if !o.unqueued {
		leave, err := p.limiter.enter(ctx)
		if err != nil {
			return "", 0, err
		}
		defer leave()
	}
	begun := time.Now()
	ref, err = pullWith(ctx, p.service, o.image, o.logins)
	return ref, time.Since(begun), err
}
