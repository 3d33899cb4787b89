package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Streams selects the streams of a session. A terminal has no Stderr of its own.
type Streams struct {
	Stdin, Stdout, Stderr, TTY bool
}

// Exec requests a session that runs a new command in a container. It returns the
// URL at which the runtime serves the session once, within about a minute. The
// command starts when the streams are opened there.
func (c *Client) Exec(ctx context.Context, id string, command []string, s Streams) (url string, err error) {
	a, err := write(ctx, c, operation{"open a session in container", id}, c.timeout, runtimeapi.RuntimeServiceClient.Exec,
		&runtimeapi.ExecRequest{ContainerId: id, Cmd: command, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout,
			Stderr: s.Stderr})
	if err != nil {
		return "", err
	}
	return a.Url, nil
}

// Attach is Exec for the process that the container already runs.
func (c *Client) Attach(ctx context.Context, id string, s Streams) (url string, err error) {
	a, err := write(ctx, c, operation{"attach to container", id}, c.timeout, runtimeapi.RuntimeServiceClient.Attach,
		&runtimeapi.AttachRequest{ContainerId: id, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	if err != nil {
		return "", err
	}
	return a.Url, nil
}

// PortForward requests a session with ports of a sandbox, like Exec.
func (c *Client) PortForward(ctx context.Context, sandboxID string, ports ...int32) (url string, err error) {
	a, err := write(ctx, c, operation{"forward ports of pod sandbox", sandboxID}, c.timeout,
		runtimeapi.RuntimeServiceClient.PortForward,
		&runtimeapi.PortForwardRequest{PodSandboxId: sandboxID, Port: ports})
	if err != nil {
		return "", err
	}
	return a.Url, nil
}

// SandboxPid returns the ID of a process on the host that is in the namespaces of
// a sandbox. CRI does not require runtimes to report it; if the runtime does not,
// that is an error.
func (c *Client) SandboxPid(ctx context.Context, id string) (int, error) {
	a, err := read(ctx, c, operation{"inspect pod sandbox", id}, runtimeapi.RuntimeServiceClient.PodSandboxStatus,
		&runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		return 0, err
	}
	return pidOf(a.Info, operation{"pod sandbox", id})
}

// maxRunOutput is how much a command of Run may print, in bytes: the output of each call is in
// memory. A session has no limit.
const maxRunOutput = 256 << 10

// Run runs a command in a container to its end and returns its output. The command may run as long
// as the caller waits. One that fails is an error.
func (c *Client) Run(ctx context.Context, id string, command []string) ([]byte, error) {
	r, err := c.ExecBounded(ctx, id, command, 0, maxRunOutput)
	if errors.Is(err, ErrOutputTooLarge) {
		err = fmt.Errorf("%w: print less than %d KiB, or use exec", err, maxRunOutput>>10)
	}
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("the command ended with exit code %d", r.ExitCode)
	}
	return slices.Concat(r.Stdout, r.Stderr), err
}

// NetworkNamespace returns the path of the network namespace of a sandbox on the host. It is
// an error if the runtime does not report the process ID of sandboxes.
func (c *Client) NetworkNamespace(ctx context.Context, id string) (string, error) {
	pid, err := c.SandboxPid(ctx, id)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/ns/net", pid), nil
}

// pidOf reads what containerd and CRI-O report beyond CRI.
func pidOf(info map[string]string, of operation) (int, error) {
	var known struct{ Pid int }
	if err := json.Unmarshal([]byte(info["info"]), &known); err != nil || known.Pid <= 0 {
		return 0, fmt.Errorf("the container runtime does not report the process ID of %s", of)
	}
	return known.Pid, nil
}
