package critest

import (
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sandbox is a sandbox as the runtime has it. Config is shared and must not
// be written to.
type Sandbox struct {
	ID, UID, Name, Namespace string
	Attempt                  uint32
	Ready                    bool
	CreatedAt                time.Time
	IPs                      []string
	Handler                  string
	Foreign                  bool // Put with another Instance than ours
	Config                   *runtimeapi.PodSandboxConfig
}

// Container is a container as the runtime has it. Config is shared and must
// not be written to.
type Container struct {
	ID, Name, SandboxID              string
	UID, Pod, Namespace              string
	State                            runtimeapi.ContainerState
	CreatedAt, StartedAt, FinishedAt time.Time
	ExitCode                         int32
	Reason, Message                  string
	Config                           *runtimeapi.ContainerConfig
}

// Running reports whether it runs.
func (c Container) Running() bool { return c.State == runtimeapi.ContainerState_CONTAINER_RUNNING }

func (s *sandbox) view() Sandbox {
	m := s.config.GetMetadata()
	return Sandbox{
		ID: s.id, UID: m.GetUid(), Name: m.GetName(), Namespace: m.GetNamespace(),
		Attempt: m.GetAttempt(), Ready: s.ready, CreatedAt: s.created,
		IPs: s.ips, Handler: s.handler, Foreign: s.foreign, Config: s.config,
	}
}

func (c *container) view() Container {
	m := c.sandbox.config.GetMetadata()
	return Container{
		ID: c.id, Name: c.containerName(), SandboxID: c.sandbox.id,
		UID: m.GetUid(), Pod: m.GetName(), Namespace: m.GetNamespace(),
		State: c.state, CreatedAt: c.created, StartedAt: c.started, FinishedAt: c.finished,
		ExitCode: c.exitCode, Reason: c.reason, Message: c.message, Config: c.config,
	}
}

// Sandboxes returns all sandboxes, oldest first.
func (f *Fake) Sandboxes() []Sandbox {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]Sandbox, 0, len(f.sandboxes))
	for _, b := range f.sandboxes {
		all = append(all, b.view())
	}
	slices.SortFunc(all, func(a, b Sandbox) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all
}

// Containers returns all containers, oldest first.
func (f *Fake) Containers() []Container {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]Container, 0, len(f.containers))
	for _, c := range f.containers {
		all = append(all, c.view())
	}
	slices.SortFunc(all, func(a, b Container) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all
}

// Newest returns the newest container with a name, or POD/CONTAINER.
func (f *Fake) Newest(name string) (Container, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var newest *container
	for _, c := range f.named(name) {
		if newest == nil || c.created.After(newest.created) {
			newest = c
		}
	}
	if newest == nil {
		return Container{}, false
	}
	return newest.view(), true
}

// Running returns how many containers run.
func (f *Fake) Running() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record.running
}

// Ready returns how many sandboxes are ready.
func (f *Fake) Ready() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record.ready
}

// RunningOf returns how many containers of the pod with this name run.
func (f *Fake) RunningOf(pod string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.containers {
		if c.running() && c.sandbox.config.GetMetadata().GetName() == pod {
			n++
		}
	}
	return n
}
