package cri

import (
	"context"
	"sync"
	"time"
)

// puller runs pulls and shares equal ones: a request for an image that is being
// pulled waits for that pull. A pull is cancelled when no request waits for it
// any more.
type puller struct {
	recordedPulls
	limiter pullLimiter

	mu       sync.Mutex
	inflight map[pullKey]*inflightPull
}

// pullKey identifies pulls that are shared. A pull with other credentials is
// separate: a pod without credentials must not profit from one that has them.
type pullKey struct {
	image, credentials string
	mustRecord         bool
}

// inflightPull is one pull in progress.
type inflightPull struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{} // closed when the following fields are set
	ref     string
	took    time.Duration // without the time spent waiting for a slot
	err     error
}

func newPuller(pulls recordedPulls, slots int) *puller {
	return &puller{recordedPulls: pulls, limiter: newPullLimiter(slots), inflight: map[pullKey]*inflightPull{}}
}

// pullRequest is a pull to run. An unqueued one takes no slot and waits for none;
// mustRecord is that of recordedPulls.pull.
type pullRequest struct {
	image                string
	credentials          []Credential
	unqueued, mustRecord bool
}

func (o pullRequest) key() pullKey {
	return pullKey{o.image, credentialsKey(o.credentials), o.mustRecord}
}

// request pulls an image.
func (p *puller) request(ctx context.Context, o pullRequest) (*inflightPull, error) {
	key := o.key()
	p.mu.Lock()
	f := p.inflight[key]
	if f == nil {
		f = &inflightPull{done: make(chan struct{})}
		// The pull outlives the first request if others wait for it.
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

// abandon removes one waiter. The last one cancels the pull and waits until it
// has ended.
func (p *puller) abandon(key pullKey, f *inflightPull) {
	p.mu.Lock()
	f.waiters--
	last := f.waiters == 0
	if last && p.inflight[key] == f {
		// A new request starts a new pull: this one will be cancelled.
		delete(p.inflight, key)
	}
	p.mu.Unlock()
	if last {
		f.cancel()
		<-f.done
	}
}

// run runs a pull and publishes its result.
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
	start := time.Now()
	ref, err = p.pull(ctx, o.image, o.credentials, o.mustRecord)
	return ref, time.Since(start), err
}
