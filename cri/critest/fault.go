package critest

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Fault is what goes wrong with a call. Its fields may be combined; they apply in
// order.
type Fault struct {
	// Times is how many calls it hits: 0 is one, negative is all. Skip lets
	// that many pass first.
	Times, Skip int
	// Pod, Container and Image, if not empty, are the names of those that
	// the call is about; other calls pass.
	Pod, Container, Image string

	// Delay makes the call take longer before its effect.
	Delay time.Duration
	// Hang holds the call before its effect until Injected.Release or until
	// the caller is gone; in the latter case it has no effect.
	Hang bool
	// Late is Hang, but the effect comes at the release even if the caller
	// has gone: the runtime did not notice.
	Late bool
	// Before is the error instead of an effect.
	Before error
	// HangAfter holds the response after the effect, until Release or until
	// the caller is gone.
	HangAfter bool
	// DisconnectAfter breaks all connections after the effect, Disconnect
	// instead of it.
	Disconnect, DisconnectAfter bool
	// After is the error after the effect: the lost response.
	After error
}

// Err returns an error of the runtime with a code, for Before and After.
func Err(code codes.Code, message string) error { return status.Error(code, message) }

// errLost is what the client of a broken connection does not even see.
var errLost = status.Error(codes.Unavailable, "connection lost")

// Injected is a Fault that was injected.
type Injected struct {
	*Hold
	f      *Fake
	method string
	fault  Fault
	left   int // negative: no limit
	skip   int
	hits   int
}

// Hits returns how many calls it has hit.
func (i *Injected) Hits() int {
	i.f.mu.Lock()
	defer i.f.mu.Unlock()
	return i.hits
}

// Remove removes it and releases the calls that it holds.
func (i *Injected) Remove() {
	i.f.mu.Lock()
	i.left = 0
	i.f.mu.Unlock()
	i.Release()
}

// faultTable has the faults in the order of their injection; the first that
// matches a call hits it.
type faultTable struct {
	injected []*Injected
	latency  map[string]time.Duration
	// work is that of each method, and busyUntil when each processor has done all of it.
	work      map[string]time.Duration
	busyUntil [2]time.Time
}

// Inject makes calls of a method ("StartContainer"; "*" is every method) fail.
func (f *Fake) Inject(method string, fault Fault) *Injected {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := &Injected{Hold: newHold(), f: f, method: method, fault: fault, left: fault.Times, skip: fault.Skip}
	if i.left == 0 {
		i.left = 1
	}
	f.faults.injected = append(f.faults.injected, i)
	return i
}

// Latency delays each call of a method ("*" for those with no latency of their
// own) before its effect.
func (f *Fake) Latency(method string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faults.latency == nil {
		f.faults.latency = map[string]time.Duration{}
	}
	f.faults.latency[method] = d
}

// Work makes each call of a method use one of the runtime's two processors for d, before its
// effect: the more calls are in progress, the longer each of them takes.
func (f *Fake) Work(method string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.faults.work == nil {
		f.faults.work = map[string]time.Duration{}
	}
	f.faults.work[method] = d
}

// worked returns how long a call takes until the runtime has done its work. The fake's lock is
// held.
func (t *faultTable) worked(method string, now time.Time) time.Duration {
	work := t.work[method]
	if work == 0 {
		return 0
	}
	next := &t.busyUntil[0]
	if t.busyUntil[1].Before(*next) {
		next = &t.busyUntil[1]
	}
	if next.Before(now) {
		*next = now
	}
	*next = next.Add(work)
	return next.Sub(now)
}

// releaseAll releases every held call. The fake's lock is held.
func (t *faultTable) releaseAll() {
	for _, i := range t.injected {
		i.left = 0
		i.Release()
	}
}

// hit counts a call and finds the fault that hits it, if any.
func (f *Fake) hit(method string, request any) (*Injected, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	about := f.targetOf(request)
	f.record.call(method, about)
	f.changed.Notify()
	latency, ok := f.faults.latency[method]
	if !ok {
		latency = f.faults.latency["*"]
	}
	latency += f.faults.worked(method, time.Now())
	for _, i := range f.faults.injected {
		if i.left == 0 || (i.method != method && i.method != "*") || !about.fits(i.fault) {
			continue
		}
		if i.skip > 0 {
			i.skip--
			continue
		}
		if i.left > 0 {
			i.left--
		}
		i.hits++
		return i, latency
	}
	return nil, latency
}

func (f *Fake) interceptUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	injected, latency := f.hit(method(info.FullMethod), request)
	if err := pause(ctx, latency); err != nil {
		return nil, err
	}
	if injected == nil {
		return handle(ctx, request)
	}
	if err := injected.before(ctx); err != nil {
		return nil, err
	}
	response, err := handle(ctx, request)
	return injected.after(ctx, response, err)
}

func (f *Fake) interceptStream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler) error {
	injected, latency := f.hit(method(info.FullMethod), nil)
	if err := pause(stream.Context(), latency); err != nil {
		return err
	}
	if injected != nil {
		if err := injected.before(stream.Context()); err != nil {
			return err
		}
	}
	return handle(server, stream)
}

func (i *Injected) before(ctx context.Context) error {
	if err := pause(ctx, i.fault.Delay); err != nil {
		return err
	}
	if i.fault.Hang {
		if err := i.wait(ctx); err != nil {
			return err
		}
	}
	if i.fault.Late {
		i.waitIgnoringContext()
	}
	if i.fault.Disconnect {
		i.f.Disconnect()
		return errLost
	}
	return i.fault.Before
}

func (i *Injected) after(ctx context.Context, response any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if i.fault.HangAfter {
		if err := i.wait(ctx); err != nil {
			return nil, err
		}
	}
	if i.fault.DisconnectAfter {
		i.f.Disconnect()
		return nil, errLost
	}
	if i.fault.After != nil {
		return nil, i.fault.After
	}
	return response, nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// method returns the name after the last slash.
func method(full string) string {
	for i := len(full) - 1; i >= 0; i-- {
		if full[i] == '/' {
			return full[i+1:]
		}
	}
	return full
}

// callTarget is the object of a call, by name.
type callTarget struct{ pod, container, image, id string }

func (s callTarget) fits(fault Fault) bool {
	return (fault.Pod == "" || fault.Pod == s.pod) &&
		(fault.Container == "" || fault.Container == s.container) &&
		(fault.Image == "" || normal(fault.Image) == normal(s.image))
}

// targetOf finds the names for a request's IDs. The lock is held.
func (f *Fake) targetOf(request any) callTarget {
	var s callTarget
	switch r := request.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		s.pod = r.GetConfig().GetMetadata().GetName()
	case *runtimeapi.CreateContainerRequest:
		s.id = r.PodSandboxId
		s.pod = r.GetSandboxConfig().GetMetadata().GetName()
		s.container = r.GetConfig().GetMetadata().GetName()
		s.image = r.GetConfig().GetImage().GetImage()
	case interface{ GetPodSandboxId() string }:
		s.id = r.GetPodSandboxId()
		if b := f.sandboxes[s.id]; b != nil {
			s.pod = b.config.GetMetadata().GetName()
		}
	case interface{ GetContainerId() string }:
		s.id = r.GetContainerId()
		if c := f.containers[s.id]; c != nil {
			s.pod, s.container = c.sandbox.config.GetMetadata().GetName(), c.containerName()
		}
	case interface{ GetImage() *runtimeapi.ImageSpec }:
		s.image = r.GetImage().GetImage()
	}
	return s
}
