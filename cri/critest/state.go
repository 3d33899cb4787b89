package critest

import (
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandbox is one pod sandbox. Its config was decoded from a request and is never
// written to.
type sandbox struct {
	id      string
	name    string // reserved
	config  *runtimeapi.PodSandboxConfig
	handler string
	ready   bool
	created time.Time
	ips     []string
	// members are its containers in the order of their creation.
	members []*container
	// foreign: put here by a test as another client's.
	foreign bool
	// listed is its item in a list, replaced at each change.
	listed *listed
}

// container is one container.
type container struct {
	id      string
	name    string // reserved
	sandbox *sandbox
	config  *runtimeapi.ContainerConfig
	image   *runtimeapi.Image

	state    runtimeapi.ContainerState
	created  time.Time
	started  time.Time
	finished time.Time
	exitCode int32
	reason   string
	message  string
	exited   chan struct{} // closed when it has exited
	ending   *time.Timer   // ends it by itself

	listed *listed
}

func (s *sandbox) fullName() string {
	return s.config.GetMetadata().GetNamespace() + "/" + s.config.GetMetadata().GetName()
}

func (s *sandbox) hostNetwork() bool {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

func (c *container) containerName() string { return c.config.GetMetadata().GetName() }

func (c *container) running() bool {
	return c.state == runtimeapi.ContainerState_CONTAINER_RUNNING
}

// sandboxName and containerReserved return the names that containerd reserves.
func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return fmt.Sprintf("%s_%s_%s_%d", m.GetName(), m.GetNamespace(), m.GetUid(), m.GetAttempt())
}

func containerReserved(m *runtimeapi.ContainerMetadata, p *runtimeapi.PodSandboxMetadata) string {
	return fmt.Sprintf("%s_%s_%s_%s_%d", m.GetName(), p.GetName(), p.GetNamespace(), p.GetUid(), m.GetAttempt())
}

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// relist replaces its item in lists. Responses that were sent are not modified.
func (s *sandbox) relist() {
	s.listed = &listed{id: s.id, state: int32(s.state()), labels: s.config.GetLabels(), wire: item(&runtimeapi.PodSandbox{
		Id:             s.id,
		Metadata:       s.config.GetMetadata(),
		State:          s.state(),
		CreatedAt:      s.created.UnixNano(),
		Labels:         s.config.GetLabels(),
		Annotations:    s.config.GetAnnotations(),
		RuntimeHandler: s.handler,
	})}
}

func (c *container) relist() {
	c.listed = &listed{id: c.id, sandbox: c.sandbox.id, state: int32(c.state), labels: c.config.GetLabels(),
		wire: item(&runtimeapi.Container{
			Id:           c.id,
			PodSandboxId: c.sandbox.id,
			Metadata:     c.config.GetMetadata(),
			Image:        c.config.GetImage(),
			ImageRef:     imageRef(c.image),
			ImageId:      c.image.GetId(),
			State:        c.state,
			CreatedAt:    c.created.UnixNano(),
			Labels:       c.config.GetLabels(),
			Annotations:  c.config.GetAnnotations(),
		})}
}

func (s *sandbox) status() *runtimeapi.PodSandboxStatus {
	status := &runtimeapi.PodSandboxStatus{
		Id:             s.id,
		Metadata:       s.config.GetMetadata(),
		State:          s.state(),
		CreatedAt:      s.created.UnixNano(),
		Network:        &runtimeapi.PodSandboxNetworkStatus{},
		Labels:         s.config.GetLabels(),
		Annotations:    s.config.GetAnnotations(),
		RuntimeHandler: s.handler,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
	}
	for i, ip := range s.ips {
		if i == 0 {
			status.Network.Ip = ip
		} else {
			status.Network.AdditionalIps = append(status.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
	}
	return status
}

func (c *container) status() *runtimeapi.ContainerStatus {
	return &runtimeapi.ContainerStatus{
		Id:          c.id,
		Metadata:    c.config.GetMetadata(),
		State:       c.state,
		CreatedAt:   c.created.UnixNano(),
		StartedAt:   nanos(c.started),
		FinishedAt:  nanos(c.finished),
		ExitCode:    c.exitCode,
		Image:       c.config.GetImage(),
		ImageRef:    imageRef(c.image),
		ImageId:     c.image.GetId(),
		Reason:      c.reason,
		Message:     c.message,
		Labels:      c.config.GetLabels(),
		Annotations: c.config.GetAnnotations(),
		Mounts:      c.config.GetMounts(),
		LogPath:     c.logPath(),
	}
}

func (c *container) logPath() string {
	dir, file := c.sandbox.config.GetLogDirectory(), c.config.GetLogPath()
	if dir == "" || file == "" {
		return ""
	}
	return dir + "/" + file
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
