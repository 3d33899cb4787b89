package critest

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeServer is the RuntimeService. What it does not have is Unimplemented.
type runtimeServer struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	f *Fake
}

func (s *runtimeServer) RunPodSandbox(_ context.Context,
	r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	m := r.GetConfig().GetMetadata()
	if m == nil {
		return nil, status.Error(codes.Unknown, "sandbox config must include metadata")
	}
	b := &sandbox{id: f.newID(), name: sandboxName(m), config: r.Config, handler: r.RuntimeHandler}
	if err := f.reserve("sandbox", b.name, b.id); err != nil {
		return nil, err
	}
	if !b.hostNetwork() {
		if message := f.runtime.network; message != "" {
			delete(f.names, b.name)
			return nil, status.Errorf(codes.Unknown, "failed to setup network for sandbox %q: %s", b.id, message)
		}
		b.ips = []string{f.newIP()}
	}
	b.created = f.now()
	f.sandboxes[b.id] = b
	f.setReady(b, true)
	f.emit(runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, b.id, b)
	f.emit(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, b.id, b)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: b.id}, nil
}

func (s *runtimeServer) StopPodSandbox(_ context.Context,
	r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.sandboxes[r.PodSandboxId]
	if b == nil {
		// containerd 1.6 reports it; later ones do not mind.
		return nil, noSandbox(r.PodSandboxId)
	}
	f.record.touched(b, "StopPodSandbox")
	f.stopSandbox(b)
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (s *runtimeServer) RemovePodSandbox(_ context.Context,
	r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.sandboxes[r.PodSandboxId]; b != nil {
		f.record.touched(b, "RemovePodSandbox")
		f.stopSandbox(b) // forced, as containerd does
		f.removeSandbox(b)
	}
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

func (s *runtimeServer) PodSandboxStatus(_ context.Context,
	r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.sandboxes[r.PodSandboxId]
	if b == nil {
		return nil, noSandbox(r.PodSandboxId)
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: b.status()}, nil
}

// reserve takes a name, as containerd's name index does. The lock is held.
func (f *Fake) reserve(kind, name, id string) error {
	if owner, taken := f.names[name]; taken {
		// containerd has no code for it.
		return status.Errorf(codes.Unknown, "failed to reserve %s name %q: name %q is reserved for %q", kind, name, name,
			owner)
	}
	f.names[name] = id
	return nil
}

// setReady changes a sandbox's state. The lock is held.
func (f *Fake) setReady(b *sandbox, ready bool) {
	b.ready = ready
	b.relist()
	f.record.sandbox(b)
	f.changed.Notify()
}

// stopSandbox kills what runs in a sandbox and stops it. The lock is held.
func (f *Fake) stopSandbox(b *sandbox) {
	for _, c := range f.containersOf(b) {
		f.exit(c, killed)
	}
	if !b.ready {
		return
	}
	b.ips = nil
	f.setReady(b, false)
	f.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, b.id, b)
}

// removeSandbox removes a stopped sandbox. The lock is held.
func (f *Fake) removeSandbox(b *sandbox) {
	for _, c := range f.containersOf(b) {
		f.removeContainer(c)
	}
	delete(f.sandboxes, b.id)
	delete(f.names, b.name)
	f.changed.Notify()
	// containerd 1.7 no longer finds the sandbox when it sends this event.
	f.emit(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, b.id, nil)
}

// containersOf returns a sandbox's containers. The lock is held.
func (f *Fake) containersOf(b *sandbox) []*container { return slices.Clone(b.members) }

func noSandbox(id string) error {
	return status.Errorf(codes.NotFound, "an error occurred when try to find sandbox %q: not found", id)
}
