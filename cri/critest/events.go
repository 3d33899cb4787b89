package critest

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/internal/wakeup"
)

// eventHub has the open event streams.
type eventHub struct {
	on           bool
	muted        bool
	drop, double int
	streams      map[*eventStream]struct{}
}

type eventStream struct {
	queue []*runtimeapi.ContainerEventResponse
	wake  wakeup.Signal
	ended bool
}

// SetEvents switches the container event stream on or off. While it is off, which
// is the default, the call is Unimplemented, as in containerd 1.6, and streams
// end.
func (f *Fake) SetEvents(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events.on = on
	if !on {
		f.events.end()
	}
}

// DropEvents drops the next n events, all while n is negative.
func (f *Fake) DropEvents(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events.drop = n
}

// DoubleEvents sends the next n events twice, all while n is negative.
func (f *Fake) DoubleEvents(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events.double = n
}

// BreakEvents ends all streams with an error; the connections stay.
func (f *Fake) BreakEvents() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events.end()
}

// Streams returns how many event streams are open.
func (f *Fake) Streams() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.events.streams)
}

func (s *runtimeServer) GetContainerEvents(_ *runtimeapi.GetEventsRequest,
	out grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	f := s.f
	stream := &eventStream{wake: wakeup.NewSignal()}
	f.mu.Lock()
	if !f.events.on {
		f.mu.Unlock()
		return status.Error(codes.Unimplemented, "unknown method GetContainerEvents")
	}
	if f.events.streams == nil {
		f.events.streams = map[*eventStream]struct{}{}
	}
	f.events.streams[stream] = struct{}{}
	f.changed.Notify()
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.events.streams, stream)
		f.changed.Notify()
	}()
	for {
		select {
		case <-stream.wake.C():
		case <-out.Context().Done():
			return status.FromContextError(out.Context().Err()).Err()
		}
		f.mu.Lock()
		queue, ended := stream.queue, stream.ended
		stream.queue = nil
		f.mu.Unlock()
		for _, e := range queue {
			if err := out.Send(e); err != nil {
				return err
			}
		}
		if ended {
			return status.Error(codes.Unavailable, "event stream broke")
		}
	}
}

// emit sends an event to all streams; b is nil if the runtime no longer finds the
// sandbox. The lock is held.
func (f *Fake) emit(kind runtimeapi.ContainerEventType, id string, b *sandbox) {
	if len(f.events.streams) == 0 || f.events.muted {
		return
	}
	if f.events.drop != 0 {
		f.events.drop--
		return
	}
	e := &runtimeapi.ContainerEventResponse{ContainerId: id, ContainerEventType: kind, CreatedAt: f.now().UnixNano()}
	if b != nil {
		e.PodSandboxStatus = b.status()
		for _, c := range b.members {
			e.ContainersStatuses = append(e.ContainersStatuses, c.status())
		}
	}
	copies := 1
	if f.events.double != 0 {
		f.events.double--
		copies = 2
	}
	for stream := range f.events.streams {
		for range copies {
			stream.queue = append(stream.queue, e)
		}
		stream.wake.Notify()
	}
}

func (h *eventHub) end() {
	for stream := range h.streams {
		stream.ended = true
		stream.wake.Notify()
	}
}
