package critest

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ending is how a container exits.
type ending struct {
	code    int32
	reason  string // empty: by the code
	message string
}

// killed is the exit by SIGKILL.
var killed = ending{code: 137}

func (s *runtimeServer) CreateContainer(_ context.Context,
	r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.sandboxes[r.PodSandboxId]
	if b == nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", r.PodSandboxId)
	}
	if !b.ready {
		return nil, status.Errorf(codes.NotFound,
			"failed to get sandbox container task: no running task found: task %s not found: not found", b.id)
	}
	if r.GetConfig().GetMetadata() == nil {
		return nil, status.Error(codes.Unknown, "container config must include metadata")
	}
	f.record.touched(b, "CreateContainer")
	c := &container{
		id:      f.newID(),
		name:    containerReserved(r.Config.Metadata, b.config.GetMetadata()),
		sandbox: b,
		config:  r.Config,
		exited:  make(chan struct{}),
	}
	if err := f.reserve("container", c.name, c.id); err != nil {
		return nil, err
	}
	if c.image = f.images.find(r.Config.GetImage().GetImage()); c.image == nil {
		delete(f.names, c.name)
		return nil, status.Errorf(codes.NotFound, "failed to resolve image %q: not found", r.Config.GetImage().GetImage())
	}
	c.created = f.now()
	f.containers[c.id] = c
	b.members = append(b.members, c)
	f.setState(c, runtimeapi.ContainerState_CONTAINER_CREATED)
	f.emit(runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, c.id, b)
	return &runtimeapi.CreateContainerResponse{ContainerId: c.id}, nil
}

func (s *runtimeServer) StartContainer(_ context.Context,
	r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.containers[r.ContainerId]
	if c == nil {
		return nil, noContainer(r.ContainerId)
	}
	if c.state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return nil, status.Errorf(codes.Unknown, "failed to set starting state for container %q: container is in %s state",
			c.id, c.state)
	}
	if !c.sandbox.ready {
		return nil, status.Errorf(codes.Unknown, "sandbox container %q is not running", c.sandbox.id)
	}
	f.record.touched(c.sandbox, "StartContainer")
	behaviour := f.script.behaviourOf(c)
	if err := f.script.openLog(c); err != nil {
		return nil, status.Errorf(codes.Unknown, "failed to create container loggers: %v", err)
	}
	if behaviour.StartError != "" {
		// containerd leaves an exited container with this code and reason.
		f.exit(c, ending{128, "StartError", behaviour.StartError})
		f.script.startFailed(c)
		return nil, status.Errorf(codes.Unknown, "failed to start containerd task %q: %s", c.containerName(),
			behaviour.StartError)
	}
	c.started = f.now()
	f.setState(c, runtimeapi.ContainerState_CONTAINER_RUNNING)
	f.emit(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, c.id, c.sandbox)
	switch end := (ending{code: behaviour.ExitCode}); {
	case behaviour.ExitAtOnce:
		f.exit(c, end)
	case behaviour.RunFor > 0:
		c.ending = time.AfterFunc(behaviour.RunFor, func() { f.exitLater(c, end) })
	}
	return &runtimeapi.StartContainerResponse{}, nil
}

// StopContainer signals the container, waits as long as its behaviour reports, and
// kills it when the time is over. If the caller goes away, the container is
// signaled but not killed.
func (s *runtimeServer) StopContainer(ctx context.Context,
	r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	f := s.f
	f.mu.Lock()
	c := f.containers[r.ContainerId]
	if c == nil {
		f.mu.Unlock()
		return nil, noContainer(r.ContainerId)
	}
	f.record.touched(c.sandbox, "StopContainer")
	if r.Timeout > 0 && c.running() {
		behaviour := f.script.behaviourOf(c)
		switch end := (ending{code: behaviour.TermCode}); {
		case behaviour.IgnoreTerm:
		case behaviour.StopAfter > 0:
			time.AfterFunc(behaviour.StopAfter, func() { f.exitLater(c, end) })
		default:
			f.exit(c, end)
		}
	}
	over := !c.running() && c.state != runtimeapi.ContainerState_CONTAINER_UNKNOWN
	f.mu.Unlock()
	if !over && r.Timeout > 0 {
		timer := time.NewTimer(time.Duration(r.Timeout) * time.Second)
		defer timer.Stop()
		select {
		case <-c.exited:
		case <-timer.C:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if over = c.state == runtimeapi.ContainerState_CONTAINER_EXITED; !over &&
		c.state != runtimeapi.ContainerState_CONTAINER_CREATED {
		f.exit(c, killed)
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

func (s *runtimeServer) RemoveContainer(_ context.Context,
	r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.containers[r.ContainerId]; c != nil {
		f.record.touched(c.sandbox, "RemoveContainer")
		f.exit(c, killed) // forced, as containerd does
		f.removeContainer(c)
	}
	return &runtimeapi.RemoveContainerResponse{}, nil
}

func (s *runtimeServer) ContainerStatus(_ context.Context,
	r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.containers[r.ContainerId]
	if c == nil {
		return nil, noContainer(r.ContainerId)
	}
	return &runtimeapi.ContainerStatusResponse{Status: c.status()}, nil
}

// setState changes a container's state. The lock is held.
func (f *Fake) setState(c *container, state runtimeapi.ContainerState) {
	c.state = state
	c.relist()
	f.record.container(c)
	f.changed.Notify()
}

// exit ends a container. One that has exited is not changed. The lock is held.
func (f *Fake) exit(c *container, e ending) {
	if c.state == runtimeapi.ContainerState_CONTAINER_EXITED {
		return
	}
	if c.ending != nil {
		c.ending.Stop()
	}
	ran := c.state != runtimeapi.ContainerState_CONTAINER_CREATED
	c.finished = f.now()
	c.exitCode, c.reason, c.message = e.code, e.reason, e.message
	if c.reason == "" {
		c.reason = "Error"
		if e.code == 0 {
			c.reason = "Completed"
		}
	}
	f.setState(c, runtimeapi.ContainerState_CONTAINER_EXITED)
	close(c.exited)
	if ran {
		f.emit(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, c.id, c.sandbox)
	}
}

// exitLater is exit for a timer.
func (f *Fake) exitLater(c *container, e ending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed && f.containers[c.id] == c {
		f.exit(c, e)
	}
}

// removeContainer removes a container. The lock is held.
func (f *Fake) removeContainer(c *container) {
	delete(f.containers, c.id)
	delete(f.names, c.name)
	if i := slices.Index(c.sandbox.members, c); i >= 0 {
		c.sandbox.members = slices.Delete(c.sandbox.members, i, i+1)
	}
	f.changed.Notify()
	f.emit(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, c.id, c.sandbox)
}

func noContainer(id string) error {
	return status.Errorf(codes.NotFound, "an error occurred when try to find container %q: not found", id)
}
