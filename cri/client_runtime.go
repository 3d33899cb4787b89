package cri

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// sandboxFactor is the kubelet's: starting a sandbox may have to pull the
	// pause image and wait for a slow CNI plugin, so it gets twice the time.
	sandboxFactor = 2
	// execSlack is the time that an exec may take beyond its own timeout, for the
	// runtime to kill it and respond. It is short, because probes wait for it.
	execSlack = 15 * time.Second
)

// Version is what the runtime reports about itself.
type Version struct {
	Name       string // containerd
	Version    string // v2.4.2
	APIVersion string // v1
}

// Version returns the runtime's name and version.
func (c *Client) Version(ctx context.Context) (Version, error) {
	a, err := read(ctx, c, operation{verb: "get the runtime's version"}, runtimeapi.RuntimeServiceClient.Version,
		&runtimeapi.VersionRequest{Version: "v1"})
	if err != nil {
		return Version{}, err
	}
	return Version{Name: a.RuntimeName, Version: a.RuntimeVersion, APIVersion: a.RuntimeApiVersion}, nil
}

// RuntimeStatus reports whether the runtime can start pods. The messages report why
// not and are empty while it can.
type RuntimeStatus struct {
	RuntimeReady   bool
	RuntimeMessage string
	NetworkReady   bool
	NetworkMessage string
}

// RuntimeStatus returns the runtime's conditions. A condition that the runtime
// does not report counts as not ready, as with the kubelet.
func (c *Client) RuntimeStatus(ctx context.Context) (RuntimeStatus, error) {
	s := RuntimeStatus{RuntimeMessage: "not reported by the runtime", NetworkMessage: "not reported by the runtime"}
	a, err := read(ctx, c, operation{verb: "get the runtime's status"}, runtimeapi.RuntimeServiceClient.Status,
		&runtimeapi.StatusRequest{})
	if err != nil {
		return RuntimeStatus{}, err
	}
	for _, condition := range a.GetStatus().GetConditions() {
		message := ""
		if !condition.Status {
			message = condition.Message
			if message == "" {
				message = condition.Reason
			}
		}
		switch condition.Type {
		case runtimeapi.RuntimeReady:
			s.RuntimeReady, s.RuntimeMessage = condition.Status, message
		case runtimeapi.NetworkReady:
			s.NetworkReady, s.NetworkMessage = condition.Status, message
		}
	}
	return s, nil
}

// UpdatePodCIDR gives the runtime the address ranges of the node's pods, separated by
// commas, for the configuration of its network.
func (c *Client) UpdatePodCIDR(ctx context.Context, cidrs string) error {
	_, err := write(ctx, c, operation{"set the pod CIDR", cidrs}, c.timeout,
		runtimeapi.RuntimeServiceClient.UpdateRuntimeConfig,
		&runtimeapi.UpdateRuntimeConfigRequest{
			RuntimeConfig: &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: cidrs}}})
	return err
}

// The calls below that create, start or remove an object end by their own deadline,
// not with the caller's context.

// RunPodSandbox creates and starts a sandbox and returns its ID. handler is the
// runtime class handler, empty for the runtime's default.
func (c *Client) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string,
	error) {
	op := operation{"run pod sandbox", config.GetMetadata().GetNamespace() + "/" + config.GetMetadata().GetName()}
	a, err := writeToEnd(ctx, c, op, sandboxFactor*c.timeout, runtimeapi.RuntimeServiceClient.RunPodSandbox,
		&runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	if err != nil {
		return "", err
	}
	return a.PodSandboxId, nil
}

// StopPodSandbox stops a sandbox and everything that runs in it, without a grace
// period. A sandbox that is stopped or gone is not an error.
func (c *Client) StopPodSandbox(ctx context.Context, id string) error {
	_, err := writeToEnd(ctx, c, operation{"stop pod sandbox", id}, c.timeout,
		runtimeapi.RuntimeServiceClient.StopPodSandbox,
		&runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return ignoreNotFound(err)
}

// RemovePodSandbox removes a sandbox and its containers. A sandbox that is gone
// is not an error.
func (c *Client) RemovePodSandbox(ctx context.Context, id string) error {
	_, err := writeToEnd(ctx, c, operation{"remove pod sandbox", id}, c.timeout,
		runtimeapi.RuntimeServiceClient.RemovePodSandbox,
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return ignoreNotFound(err)
}

// CreateContainer creates a container in a sandbox and returns its ID.
func (c *Client) CreateContainer(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig,
	sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	op := operation{"create container", config.GetMetadata().GetName()}
	a, err := writeToEnd(ctx, c, op, c.timeout, runtimeapi.RuntimeServiceClient.CreateContainer,
		&runtimeapi.CreateContainerRequest{PodSandboxId: sandboxID, Config: config, SandboxConfig: sandbox})
	if err != nil {
		return "", err
	}
	return a.ContainerId, nil
}

// StartContainer starts a created container.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	_, err := writeToEnd(ctx, c, operation{"start container", id}, c.timeout,
		runtimeapi.RuntimeServiceClient.StartContainer,
		&runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

// StopContainer stops a container: it sends the stop signal and kills the
// container after grace, which is rounded up to whole seconds. The call's own
// deadline is the grace period plus the request timeout. A container that has
// exited is not an error.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	grace = max(grace, 0)
	_, err := write(ctx, c, operation{"stop container", id}, grace+c.timeout,
		runtimeapi.RuntimeServiceClient.StopContainer,
		&runtimeapi.StopContainerRequest{ContainerId: id, Timeout: wholeSeconds(grace)})
	return ignoreNotFound(err)
}

// RemoveContainer removes a container and kills it if it runs. A container that
// is gone is not an error.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	_, err := writeToEnd(ctx, c, operation{"remove container", id}, c.timeout,
		runtimeapi.RuntimeServiceClient.RemoveContainer,
		&runtimeapi.RemoveContainerRequest{ContainerId: id})
	return ignoreNotFound(err)
}

// ExecResult is the output and exit code of a command in a container.
type ExecResult struct {
	Stdout, Stderr []byte
	ExitCode       int32
}

// ExecSync runs a command in a container and waits until it ends, at most
// timeout, which is rounded up to whole seconds; 0 waits without limit. A command
// that took longer is ErrTimeout.
func (c *Client) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error) {
	return c.ExecBounded(ctx, id, command, timeout, maxMessage)
}

// ExecBounded is ExecSync with a limit of the output in bytes. What is above the limit
// is not received: the exit code is unknown then, and the error is ErrOutputTooLarge.
func (c *Client) ExecBounded(ctx context.Context, id string, command []string, timeout time.Duration,
	maxOutput int) (ExecResult, error) {
	limit := noLimit
	if timeout > 0 {
		limit = timeout + execSlack
	}
	exec := func(client runtimeapi.RuntimeServiceClient, ctx context.Context, request *runtimeapi.ExecSyncRequest,
		options ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
		response, err := client.ExecSync(ctx, request, append(options, grpc.MaxCallRecvMsgSize(maxOutput+execOverhead))...)
		if status.Code(err) == codes.ResourceExhausted {
			err = ErrOutputTooLarge
		}
		return response, err
	}
	a, err := write(ctx, c, operation{"run a command in container", id}, limit, exec,
		&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: wholeSeconds(timeout)})
	if err != nil {
		return ExecResult{}, err
	}
	return ExecResult{Stdout: a.Stdout, Stderr: a.Stderr, ExitCode: a.ExitCode}, nil
}

// execOverhead is the space in bytes for what a result has besides the output.
const execOverhead = 64

// ReopenContainerLog makes the runtime reopen a container's log file after it was
// renamed. The container must run.
func (c *Client) ReopenContainerLog(ctx context.Context, id string) error {
	_, err := write(ctx, c, operation{"reopen the log of container", id}, c.timeout,
		runtimeapi.RuntimeServiceClient.ReopenContainerLog,
		&runtimeapi.ReopenContainerLogRequest{ContainerId: id})
	return err
}

// ignoreNotFound treats "not found" as success, which CRI requires of calls that
// stop and remove, and which containerd 1.6 does not do.
func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}
